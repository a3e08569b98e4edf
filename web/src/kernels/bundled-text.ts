// A text to train on: 200 KB of English that never change.

export { default as bundledText } from 'virtual:genesis';

// Something to train on: 200 KB of English that do not change.

export { default as bundledText } from 'virtual:genesis';

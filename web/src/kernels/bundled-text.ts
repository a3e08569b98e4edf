// Something to train on: this project's own documents and the code of its layers.

const files = import.meta.glob<string>(
  [
    '#root/*.md',
    '#root/docs/*.md',
    '#root/include/addnorm/*.h',
    '#root/src/nn/*.{h,cc}',
    '!#root/src/nn/*_test.cc',
  ],
  { query: '?raw', import: 'default', eager: true },
);

export const bundledText = Object.values(files).join('\n');

// The speaker's notes. A chapter's notes.ts has one for each of its steps.

const files = import.meta.glob<readonly string[]>('../chapters/*/notes.ts', {
  eager: true,
  import: 'notes',
});

export function notesOf(chapter: string): readonly string[] {
  return files[`../chapters/${chapter}/notes.ts`] ?? [];
}

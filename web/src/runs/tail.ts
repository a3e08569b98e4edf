// A file of lines that grows, read bit by bit.

const NEWLINE = 10;

/** Which bytes to ask for next. The last line is read once more each time: where it stands no longer,
 * the file was cut back, or is another, even if it has grown longer since. */
export class Tail {
  #last: Uint8Array = new Uint8Array(); // the last whole line
  #end = 0; // where it ends

  /** Where to read from. */
  get from(): number {
    return this.#end - this.#last.length;
  }

  /** Takes the file's bytes from there to its end. Returns the lines that are new; undefined where it
   * must be read again from its start. */
  take(bytes: Uint8Array): string[] | undefined {
    if (!this.#last.every((byte, i) => bytes[i] === byte)) {
      this.#last = new Uint8Array();
      this.#end = 0;
      return undefined;
    }
    const known = this.#last.length;
    const end = bytes.lastIndexOf(NEWLINE) + 1; // what follows is still being written
    if (end <= known) return [];
    this.#end += end - known;
    this.#last = bytes.slice(bytes.lastIndexOf(NEWLINE, end - 2) + 1, end);
    return new TextDecoder().decode(bytes.subarray(known, end)).trimEnd().split('\n');
  }
}

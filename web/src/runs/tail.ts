// Reads a growing file of lines piece by piece.

const NEWLINE = 10;

/** Tracks the next bytes to request. Each request includes the last known line. If that line has
 * changed, the file was truncated or replaced, even if it is longer now. */
export class Tail {
  #last: Uint8Array = new Uint8Array(); // the last complete line
  #end = 0; // the offset of its end

  /** The offset of the next request. */
  get from(): number {
    return this.#end - this.#last.length;
  }

  /** Takes the bytes from that offset to the end of the file. Returns the new lines; undefined if
   * the file must be read again from its start. */
  take(bytes: Uint8Array): string[] | undefined {
    if (!this.#last.every((byte, i) => bytes[i] === byte)) {
      this.#last = new Uint8Array();
      this.#end = 0;
      return undefined;
    }
    const known = this.#last.length;
    const end = bytes.lastIndexOf(NEWLINE) + 1; // the rest is still being written
    if (end <= known) return [];
    this.#end += end - known;
    this.#last = bytes.slice(bytes.lastIndexOf(NEWLINE, end - 2) + 1, end);
    return new TextDecoder().decode(bytes.subarray(known, end)).trimEnd().split('\n');
  }
}

// An instance of one of the library's modules: its memory, its texts, and its words before a trap.

/** float32 or float64: the arrays that go in decide. */
export type Values = Float32Array | Float64Array;

/** What the library says about an argument that it cannot use. */
export class KernelError extends Error {
  override readonly name = 'KernelError';
}

type Exports = Record<string, (...args: number[]) => number> & { memory: WebAssembly.Memory };

export class Instance {
  #exports: Exports;

  constructor(readonly module: WebAssembly.Module) {
    this.#exports = this.#start();
  }

  /** The module's functions; other ones after a call that failed. */
  get exports(): Exports {
    return this.#exports;
  }

  /** Runs `body`; what it puts into the module's memory is given back. A trap becomes a
   * KernelError, and a fresh instance takes the place of the one that it spoiled. */
  call<R>(body: (arena: Arena) => R): R {
    const arena = new Arena(this.#exports);
    try {
      return body(arena);
    } catch (error) {
      // A trap, or the stack's end: either way the instance is spoiled.
      const message = this.text(this.#exports.last_failure());
      this.#exports = this.#start();
      throw new KernelError(message || String(error));
    } finally {
      if (arena.exports === this.#exports) arena.release();
    }
  }

  /** The text at this address, up to a 0. */
  text(address: number): string {
    const bytes = new Uint8Array(this.#exports.memory.buffer);
    const begin = address >>> 0;
    return new TextDecoder().decode(bytes.slice(begin, bytes.indexOf(0, begin)));
  }

  #start(): Exports {
    try {
      const { exports } = new WebAssembly.Instance(this.module);
      const started = exports as unknown as Exports;
      started._initialize();
      return started;
    } catch (error) {
      throw new KernelError(`The module cannot be started: ${(error as Error).message}`);
    }
  }
}

/** What one call has in the module's memory. Views are made when they are used: memory may grow. */
export class Arena {
  #addresses: number[] = [];

  constructor(readonly exports: Exports) {}

  reserve(bytes: number): number {
    const address = this.exports.allocate(bytes) >>> 0;
    this.#addresses.push(address);
    return address;
  }
  like(values: Values | Uint8Array): number {
    return this.reserve(values.byteLength);
  }
  /** The address of a copy; 0 of what is absent. */
  put(values: Values | Uint8Array | null | undefined): number {
    if (values === null || values === undefined) return 0;
    const address = this.like(values);
    this.write(address, values);
    return address;
  }
  write(address: number, values: Values | Uint8Array): void {
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    new Uint8Array(this.exports.memory.buffer, address >>> 0, values.byteLength).set(bytes);
  }
  /** A copy of what stands at `address`, with the type of `like`, and its length if none is said. */
  take<V extends Values>(address: number, like: V, length = like.length): V {
    const begin = address >>> 0;
    const end = begin + length * like.BYTES_PER_ELEMENT;
    const buffer = this.exports.memory.buffer.slice(begin, end);
    return new (like.constructor as new (buffer: ArrayBuffer) => V)(buffer);
  }
  release(): void {
    for (const address of this.#addresses) this.exports.release(address);
  }
}

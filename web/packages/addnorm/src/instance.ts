// An instance of one of the library's modules: its memory, its texts, and its words before a trap.

/** float32 or float64: the arrays that go in decide. */
export type Values = Float32Array | Float64Array;

/** What the library says about an argument that it cannot use. */
export class KernelError extends Error {
  override readonly name = 'KernelError';
}

type Exports = Record<string, (...args: number[]) => number> & { memory: WebAssembly.Memory };

/** Where the fields of a struct stand; a type is the suffix of DataView's functions for it. */
interface Layout {
  bytes: number;
  fields: Record<string, [type: 'Uint32' | 'Float32' | 'Float64' | 'BigUint64', offset: number]>;
}

export class Instance {
  #exports: Exports;
  #layouts: Record<string, Layout> | undefined;

  constructor(readonly module: WebAssembly.Module) {
    this.#exports = this.#start();
  }

  /** The module's functions; other ones after a call that failed. */
  get exports(): Exports {
    return this.#exports;
  }

  /** What the module says of a struct. */
  layout(struct: string): Layout {
    this.#layouts ??= JSON.parse(this.text(this.#exports.layouts())) as Record<string, Layout>;
    return this.#layouts[struct];
  }

  /** Runs `body`; what it puts into the module's memory is given back. A trap becomes a
   * KernelError, and a fresh instance takes the place of the one that it spoiled. */
  call<R>(body: (arena: Arena) => R): R {
    const arena = new Arena(this);
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
  readonly exports: Exports;

  constructor(readonly instance: Instance) {
    this.exports = instance.exports;
  }

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
  /** The address of a struct with these fields, whose names may be in camel case; others are 0. */
  struct(name: string, values: Record<string, number | boolean>): number {
    const { bytes, fields } = this.instance.layout(name);
    const view = new DataView(new ArrayBuffer(bytes));
    const all = 'size' in fields ? { size: bytes, ...values } : values;
    for (const [field, value] of Object.entries(all)) {
      const [type, offset] = fields[field.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)];
      if (type === 'BigUint64') view.setBigUint64(offset, BigInt(value), true);
      else view[`set${type}`](offset, Number(value), true);
    }
    return this.put(new Uint8Array(view.buffer));
  }
  /** A copy of what stands at `address`, with the type of `like`, and its length if none is said. */
  take<V extends Values | Uint32Array | Uint8Array>(
    address: number,
    like: V,
    length = like.length,
  ): V {
    const begin = address >>> 0;
    const end = begin + length * like.BYTES_PER_ELEMENT;
    const buffer = this.exports.memory.buffer.slice(begin, end);
    return new (like.constructor as new (buffer: ArrayBuffer) => V)(buffer);
  }
  release(): void {
    for (const address of this.#addresses) this.exports.release(address);
  }
}

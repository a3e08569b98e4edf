// An instance of one of the library's modules: its memory, its strings, and its errors.

/** float32 or float64, as the caller's arrays are. */
export type Values = Float32Array | Float64Array;

/** The library's error message about an invalid argument. */
export class KernelError extends Error {
  override readonly name = 'KernelError';
}

type Exports = Record<string, (...args: number[]) => number> & { memory: WebAssembly.Memory };

/** The size of a struct and the offsets of its fields. A type is the
 * suffix of DataView's methods for it. */
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

  /** The module's functions. They are replaced after a call that failed. */
  get exports(): Exports {
    return this.#exports;
  }

  /** The layout of a struct, as the module reports it. */
  layout(struct: string): Layout {
    this.#layouts ??= JSON.parse(this.text(this.#exports.layouts())) as Record<string, Layout>;
    return this.#layouts[struct];
  }

  /** Runs `body`, then frees the module's memory that it used. After a trap, throws a KernelError
   * and replaces the broken instance by a new one. */
  call<R>(body: (arena: Arena) => R): R {
    const arena = new Arena(this);
    try {
      return body(arena);
    } catch (error) {
      // A trap or a stack overflow: either leaves the instance unusable.
      const message = this.text(this.#exports.last_failure());
      this.#exports = this.#start();
      throw new KernelError(message || String(error));
    } finally {
      if (arena.exports === this.#exports) arena.release();
    }
  }

  /** The 0-terminated text at this address. */
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

/** The memory of one call in the module. Views are created at each use, because memory may grow. */
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
  /** The address of a copy of the values; 0 if they are absent. */
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
  /** The address of a new struct with these fields, named in camel or
   * snake case. Other fields are 0. */
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
  /** A copy of the values at `address`, with the type of `like` and by default its length. */
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

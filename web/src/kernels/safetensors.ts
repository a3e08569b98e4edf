// Reads files of tensors, as `addnorm train` writes them: a header of JSON, then the values.

export interface Tensors {
  metadata: Record<string, string>;
  values: Map<string, Float32Array>; // in the order of the file
}

interface Entry {
  dtype: string;
  data_offsets: [begin: number, end: number];
}

/** The tensors of a safetensors file, which must all be bfloat16. */
export function parseSafetensors(file: ArrayBuffer): Tensors {
  const length = Number(new DataView(file).getBigUint64(0, true));
  const start = 8 + length;
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, length)));
  const { __metadata__: metadata, ...entries } = header;
  const values = new Map<string, Float32Array>();
  for (const [name, { dtype, data_offsets }] of Object.entries<Entry>(entries)) {
    if (dtype !== 'BF16') throw new Error(`${name} is of ${dtype}, not of BF16`);
    values.set(
      name,
      widened(file.slice(...(data_offsets.map((at) => start + at) as [number, number]))),
    );
  }
  return { metadata, values };
}

/** Converts bfloat16, the upper half of float32, to float32. */
function widened(bytes: ArrayBuffer): Float32Array {
  const bits = Uint32Array.from(new Uint16Array(bytes), (half) => half << 16);
  return new Float32Array(bits.buffer);
}

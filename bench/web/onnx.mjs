// The part of ONNX's protocol buffers (onnx.proto3) that a graph of a few nodes needs.

const bytes = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));

function varint(value) {
  const digits = [];
  for (let rest = value; digits.length === 0 || rest > 0; rest = Math.floor(rest / 128)) {
    digits.push((rest % 128) | (rest >= 128 ? 128 : 0));
  }
  return digits;
}
const number = (field, value) => bytes(varint(field * 8), varint(value));
const message = (field, body) => bytes(varint(field * 8 + 2), varint(body.length), body);
const text = (field, value) => message(field, new TextEncoder().encode(value));

const floats = (shape) => {
  const dims = shape.map((n) => message(1, number(1, n)));
  return message(1, bytes(number(1, 1), message(2, bytes(...dims))));
};
const value = (name, shape) => bytes(text(1, name), message(2, floats(shape)));

const node = ({ op, inputs, outputs, domain = '' }) =>
  bytes(...inputs.map((i) => text(1, i)), ...outputs.map((o) => text(2, o)), text(4, op),
    domain === '' ? [] : text(7, domain));

/** A model of these nodes. Inputs and outputs are [name, shape], all float32. */
export function model({ nodes, inputs, outputs }) {
  const graph = bytes(
    ...nodes.map((n) => message(1, node(n))),
    text(2, 'graph'),
    ...inputs.map(([name, shape]) => message(11, value(name, shape))),
    ...outputs.map(([name, shape]) => message(12, value(name, shape))),
  );
  const operators = (domain, version) => message(8, bytes(text(1, domain), number(2, version)));
  return bytes(number(1, 8), message(7, graph), operators('', 17), operators('com.microsoft', 1));
}

export function AddNorm() {
  return <p />;
}

export function Highway() {
  return <p />;
}

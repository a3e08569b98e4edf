export function Backward() {
  return <p />;
}

export function Axes() {
  return <p />;
}

export function Quiz() {
  return <p />;
}

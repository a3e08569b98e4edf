export function StepByStep() {
  return <p />;
}

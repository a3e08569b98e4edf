export function PlacementChapter() {
  return <p />;
}

export function BlockChapter() {
  return <p />;
}

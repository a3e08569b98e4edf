/// <reference types="vite/client" />
declare module '#lab?url' {
  const url: string;
  export default url;
}
declare module '#module?url' {
  const url: string;
  export default url;
}

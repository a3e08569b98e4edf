/// <reference types="vite/client" />
declare module '#lab?url' {
  const url: string;
  export default url;
}

/// <reference types="vite/client" />
declare module '#lab?url' {
  const url: string;
  export default url;
}

declare module 'virtual:genesis' {
  const text: string;
  export default text;
}

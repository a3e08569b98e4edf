// A worker with its own kernels. Its first message is the compiled module; requests follow.

import { Kernels } from './kernels';
import { answer, type Request } from './remote';
import { SessionHost } from './session-host';

let host: SessionHost;

addEventListener('message', async ({ data }: MessageEvent<WebAssembly.Module | Request>) => {
  if (data instanceof WebAssembly.Module) host = new SessionHost(new Kernels(data));
  else postMessage(await answer(host, data));
});

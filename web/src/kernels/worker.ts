// A thread with kernels of its own. First comes the compiled module, then requests.

import { Kernels } from './kernels';
import { answer, type Request } from './remote';
import { SessionHost } from './session-host';

let host: SessionHost;

addEventListener('message', async ({ data }: MessageEvent<WebAssembly.Module | Request>) => {
  if (data instanceof WebAssembly.Module) host = new SessionHost(new Kernels(data));
  else postMessage(await answer(host, data));
});

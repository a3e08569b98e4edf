// A thread with kernels of its own. First comes the compiled module, then requests.

import { Kernels } from './kernels';
import { type Request, SessionHost } from './session-host';

let host: SessionHost;

addEventListener('message', ({ data }: MessageEvent<WebAssembly.Module | Request>) => {
  if (data instanceof WebAssembly.Module) host = new SessionHost(new Kernels(data));
  else postMessage(host.answer(data));
});

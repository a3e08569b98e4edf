// A worker with its own kernels. The compiled module comes once the page has it; requests wait.

import { Kernels } from './kernels';
import { answer, type Request } from './remote';
import { SessionHost } from './session-host';

let start: (host: SessionHost) => void;
const host = new Promise<SessionHost>((resolve) => (start = resolve));

addEventListener('message', async ({ data }: MessageEvent<WebAssembly.Module | Request>) => {
  if (data instanceof WebAssembly.Module) start(new SessionHost(new Kernels(data)));
  else postMessage(await answer(host, data));
});

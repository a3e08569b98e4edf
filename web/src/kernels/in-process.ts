// A SessionWorker without a thread, for unit tests.

import type { Kernels } from './kernels';
import { type Request, SessionHost } from './session-host';
import { type Port, SessionWorker } from './sessions';

export function inProcessWorker(kernels: Kernels): SessionWorker {
  const host = new SessionHost(kernels);
  let answer: (event: { data: unknown }) => void = () => {};
  const port: Port = {
    addEventListener: (type, listener) => type === 'message' && (answer = listener),
    postMessage: (request) => setTimeout(() => answer({ data: host.answer(request as Request) })),
    terminate: () => (answer = () => {}),
  };
  return new SessionWorker(port);
}

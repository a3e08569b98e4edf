// A SessionHost without a worker, for unit tests.

import type { Kernels } from '../src/kernels/kernels';
import { answer, Remote, type Request } from '../src/kernels/remote';
import { SessionHost } from '../src/kernels/session-host';
import type { SessionWorker } from '../src/kernels/sessions';

export function inProcessWorker(kernels: Kernels): SessionWorker {
  const host = new SessionHost(kernels);
  let listener: (event: { data: unknown }) => void = () => {};
  return new Remote({
    addEventListener: (type, given) => type === 'message' && (listener = given),
    postMessage: (request) =>
      setTimeout(async () => listener({ data: await answer(host, request as Request) })),
    terminate: () => (listener = () => {}),
  });
}

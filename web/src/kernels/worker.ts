// The worker that measures and trains stacks.

import { Kernels } from './kernels';
import { answerRequests } from './remote';
import { SessionHost } from './session-host';

answerRequests((module) => new SessionHost(new Kernels(module)));

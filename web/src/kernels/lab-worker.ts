// The worker that runs the lab.

import { Lab } from './lab';
import { answerRequests } from './remote';

answerRequests((module) => new Lab(module));

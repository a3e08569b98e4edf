// The worker that loads and runs the lab.

import url from '#lab?url';
import { compile } from 'addnorm/compile';
import { Lab } from './lab';
import { answer, type Request } from './remote';

const lab = compile(url).then((module) => new Lab(module));

addEventListener('message', async ({ data }: MessageEvent<Request>) => {
  postMessage(await answer(lab, data));
});

// A thread with the lab, which it loads itself.

import url from '#lab?url';
import { Lab } from './lab';
import { loadModule } from './load';
import { answer, type Request } from './remote';

const lab = loadModule(url).then((module) => new Lab(module));

addEventListener('message', async ({ data }: MessageEvent<Request>) => {
  postMessage(await answer(lab, data));
});

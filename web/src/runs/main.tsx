import { render } from 'preact';
import { t } from '../language/text';
import { startLink } from '../state/link';
import '../style.css';
import { App } from './app';
import { followRuns } from './feed';

document.title = t`Training runs · addnorm`;
startLink([], () => {});
render(<App />, document.getElementById('app')!);
void followRuns();

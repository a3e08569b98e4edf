import { render } from 'preact';
import { startLink } from '../state/link';
import '../style.css';
import { App } from './app';
import { followRuns } from './feed';

startLink([], () => {});
render(<App />, document.getElementById('app')!);
void followRuns();

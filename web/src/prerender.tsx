// Renders the page as it is before its script has run. The build writes it into index.html.

import { renderToString } from 'preact-render-to-string';
import { App } from './app';

export function prerender(): string {
  return renderToString(<App />);
}

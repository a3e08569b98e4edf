// The page as it is before its script has run: the build writes it into index.html.

import { renderToString } from 'preact-render-to-string';
import { App } from './app';

export function prerender(): string {
  return renderToString(<App />);
}

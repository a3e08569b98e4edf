// A menu that saves a figure as SVG, PNG or CSV.

import { t } from '../language/text';
import { Button } from './controls';
import { csvOf, download, fileName, pngOf, svgOf } from './picture';

interface SaveMenuProps {
  name: string;
  figure: { current: HTMLElement | null };
}

export function SaveMenu({ name, figure }: SaveMenuProps) {
  const file = (type: string) => `${fileName(name)}.${type}`;
  const drawing = () => figure.current!.querySelector('svg')!;
  const text = (type: string, content: string) => new Blob([content], { type });
  const formats = {
    SVG: () => download(file('svg'), text('image/svg+xml', svgOf(drawing()))),
    PNG: async () => download(file('png'), await pngOf(drawing())),
    CSV: () => download(file('csv'), text('text/csv', csvOf(figure.current!))),
  };
  return (
    <details class="save-menu" onFocusOut={closeOutside}>
      <summary aria-label={t`Save “${name}”`} title={t`Save this picture`}>
        ⤓
      </summary>
      <div class="buttons">
        {Object.entries(formats).map(([format, save]) => (
          <Button key={format} onClick={save}>
            {format}
          </Button>
        ))}
      </div>
    </details>
  );
}

/** Closes a menu when the focus leaves it. */
export function closeOutside({ currentTarget, relatedTarget }: FocusEvent) {
  const menu = currentTarget as HTMLDetailsElement;
  if (!menu.contains(relatedTarget as Node | null)) menu.open = false;
}

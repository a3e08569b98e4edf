import type { HtmlTagDescriptor, Plugin } from 'vite';

const PICTURE = { file: 'preview.jpg', width: '1200', height: '630' };

/** Adds the tags from which other sites make the preview of a link to the page. They need full
 * addresses: PAGE_ADDRESS is the address of the page's folder. Without it the picture's address is
 * relative, which only some sites understand. */
export function sharing(address = process.env.PAGE_ADDRESS ?? '.'): Plugin {
  const folder = address.replace(/\/$/, '');
  return {
    name: 'sharing',
    transformIndexHtml: {
      order: 'post',
      handler(html, { filename }) {
        if (!filename.endsWith('/index.html')) return [];
        const title = /<title>(.*?)<\/title>/.exec(html)![1];
        const description = /<meta name="description" content="([^"]*)"/.exec(html)![1];
        const properties = {
          'og:type': 'website',
          'og:title': title,
          'og:description': description,
          'og:image': `${folder}/${PICTURE.file}`,
          'og:image:width': PICTURE.width,
          'og:image:height': PICTURE.height,
          'og:image:alt':
            'Coloured bands, one for each byte of a sentence, rise through 24 layers.',
          ...(folder !== '.' && { 'og:url': `${folder}/` }),
        };
        const tags: HtmlTagDescriptor[] = Object.entries(properties).map(([property, content]) => ({
          tag: 'meta',
          attrs: { property, content },
        }));
        const card = { name: 'twitter:card', content: 'summary_large_image' };
        return [...tags, { tag: 'meta', attrs: card }];
      },
    },
  };
}

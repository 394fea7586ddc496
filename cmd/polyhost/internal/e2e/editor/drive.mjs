// Does in a page of a running Chromium what it is told, one JSON text a line:
// {"id":1,"do":"click","selector":".button"} is answered by {"id":1,"result":…} or
// {"id":1,"error":"…"}. What the page writes to its console comes between as
// {"console":"…"}.
//
//   node drive.mjs FOLDER_WITH_PLAYWRIGHT DEVTOOLS_URL
import { createRequire } from 'node:module';
import readline from 'node:readline';

const [modules, devtools] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/drive.mjs`)('playwright-core');

const say = (o) => process.stdout.write(JSON.stringify(o) + '\n');
const browser = await chromium.connectOverCDP(devtools);
const page = await (await browser.newContext({ viewport: { width: 1500, height: 950 } })).newPage();
page.setDefaultTimeout(30_000);
page.on('console', (m) => say({ console: `${m.type()} ${m.text().slice(0, 2000)}` }));
page.on('pageerror', (e) => say({ console: `pageerror ${e.stack?.slice(0, 2000)}` }));

// find is the first, or last, element in sight that the selector and text name.
function find({ selector, text, last }) {
  let found = page.locator(selector);
  if (text) found = found.filter({ hasText: new RegExp(text) });
  found = found.filter({ visible: true });
  return last ? found.last() : found.first();
}

const verbs = {
  open: ({ url }) => page.goto(url, { waitUntil: 'domcontentloaded', timeout: 180_000 }).then(() => null),
  click: (a) => find(a).click({ button: a.button ?? 'left' }),
  hover: (a) => find(a).hover(),
  type: ({ text }) => page.keyboard.type(text, { delay: 15 }),
  fill: ({ text, ...a }) => find(a).fill(text), // keys that come before a field is ready are lost
  press: ({ key }) => page.keyboard.press(key),
  texts: ({ selector }) => page.locator(selector).filter({ visible: true }).allInnerTexts(),
  count: ({ selector }) => page.locator(selector).filter({ visible: true }).count(),
  shot: ({ path }) => page.screenshot({ path }).then(() => null),
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { id, do: verb, ...args } = JSON.parse(line);
  try {
    say({ id, result: (await verbs[verb](args)) ?? null });
  } catch (e) {
    say({ id, error: e.message.split('\n')[0] });
  }
}
process.exit(0);

// Runs the suite, scores it as the published results are scored (a test passes or it does not; tests
// for browsers and CDNs are left out) and compares with what tools/cache-tests.json expects.

import { spawn } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { once } from 'node:events'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'

const KINDS = ['required', 'optimal', 'check']
// Of 150, 98 and 93, from the suite's own folder of results.
const PUBLISHED = [
  ['Apache', 137, 69, 43], ['Squid', 134, 59, 61], ['Varnish', 134, 49, 26],
  ['Caddy', 133, 38, 22], ['Traffic Server', 132, 74, 44], ['nginx', 111, 66, 18]
]
const DOCS = 'docs/cache-tests.md'
// The suite takes a minute: most of its tests wait three seconds for something to be stale.
const LIMIT_MS = 170_000

const { values: args } = parseArgs({
  options: {
    nightwatt: { type: 'string' }, suite: { type: 'string' }, name: { type: 'string' },
    only: { type: 'string', default: '' }, json: { type: 'boolean' }, docs: { type: 'boolean' }
  }
})
const { all, [args.name]: own } = JSON.parse(fs.readFileSync('tools/cache-tests.json', 'utf8'))
// What is said of one suite counts before what is said of all.
const expected = { failures: { ...all.failures, ...own?.failures }, checks: { ...all.checks, ...own?.checks } }
const children = []

/** Starts a program and gives the first thing it says that matches. */
function start (command, argv, options, says) {
  const child = spawn(command, argv, { ...options, stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  // The pipe stays open and is read to its end: a program that cannot say something dies of it.
  return new Promise((resolve, reject) => {
    let text = ''
    child.stdout.on('data', part => {
      text += part
      const found = text.match(says)
      if (found) resolve(found[1])
    })
    child.on('close', () => reject(new Error(`${command} ended before it listened: ${text}`)))
  })
}

/** The suite reads what npm would tell its scripts. */
function environment (config) {
  const told = Object.entries({ protocol: 'http', port: '0', base: '', id: '', ...config })
  return { ...process.env, ...Object.fromEntries(told.map(([key, value]) => [`npm_package_config_${key}`, value])) }
}

/**
 * What is configured beside the origin. The suite names each of its requests by fields of its own, marks few
 * of its answers as public, and looks for a hit on the second request. `Other` is in one test alone
 * (`vary-cache-key`), which asks for a field outside of `Vary` to be ignored.
 */
const PROFILES = {
  compatible: `kind = "pages"
cache.fill = "clients"
cache.harmless_headers = ["test-id", "test-name", "req-num", "other"]`,
  shipped: ''
}

async function run (dir, profile) {
  const engine = fs.existsSync(path.join(args.suite, 'test-engine')) ? 'test-engine/' : ''
  const server = await start('node', [`${engine}server/server.mjs`],
    { cwd: args.suite, env: environment({ pidfile: path.join(dir, 'server.pid') }) },
    /Listening on http:\/\/.*:(\d+)\//)
  const config = path.join(dir, 'nightwatt.toml')
  fs.writeFileSync(config, `listen = ["127.0.0.1:0"]
state_dir = "${dir}/state"
[scenario]
policy = "always-on"
[[site]]
name = "suite"
${PROFILES[profile]}
origin = "http://127.0.0.1:${server}"
[site.power.simulated]
starts_up = true
`)
  const proxy = await start(args.nightwatt, ['serve', '-c', config, '--json', '--log-level', 'error'], {}, /"(127\.0\.0\.1:\d+)"/)
  const client = spawn('node', ['--no-warnings', `${engine}cli.mjs`], {
    cwd: args.suite,
    env: environment({ base: `http://${proxy}`, id: args.only }),
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: LIMIT_MS
  })
  children.push(client)
  let text = ''
  client.stdout.on('data', part => { text += part })
  const [code, signal] = await once(client, 'close')
  if (code !== 0) throw new Error(`the suite's client ended with ${signal ?? code}`)
  return text
}

/** Each test that counts, with its kind and what went wrong. */
async function score (results) {
  const index = pathToFileURL(path.resolve(args.suite, 'tests/index.mjs'))
  const suites = (await import(index)).default
  const tests = suites.flatMap(suite => suite.tests.map(test => ({ ...test, suite: suite.name })))
  return tests.filter(test => !test.browser_only && !test.cdn_only).map(test => {
    const result = results[test.id]
    return {
      id: test.id,
      kind: test.kind ?? 'required',
      suite: test.suite,
      name: test.name,
      passed: result === true,
      error: result === true ? null : (result ?? ['no result']).join(': ')
    }
  })
}

/** What to report of a test that failed, and of one with an unexpected result. */
function judge (tests) {
  const unexpected = []
  const better = []
  for (const test of tests) {
    if (test.kind === 'check') {
      const decided = expected.checks[test.id]
      if (decided === undefined) unexpected.push(`${test.id}: not decided on; it says ${test.passed ? 'yes' : 'no'}`)
      else if (decided.answer !== (test.passed ? 'yes' : 'no')) {
        unexpected.push(`${test.id}: decided on ${decided.answer}, and it is not so (${test.error ?? 'passed'})`)
      }
      continue
    }
    const known = expected.failures[test.id]
    if (!test.passed && known === undefined) unexpected.push(`${test.id}: ${test.error}`)
    if (test.passed && known !== undefined) better.push(test.id)
  }
  return { unexpected, better }
}

function table (rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map(row => String(row[column]).length)))
  return rows.map(row => row.map((cell, column) => {
    const text = String(cell)
    return typeof cell === 'number' ? text.padStart(widths[column]) : text.padEnd(widths[column])
  }).join('  ').trimEnd()).join('\n')
}

function markdown (rows) {
  const line = cells => `| ${cells.join(' | ')} |`
  return [line(rows[0]), line(rows[0].map(() => '---')), ...rows.slice(1).map(line)].join('\n')
}

function totals (tests) {
  return KINDS.map(kind => {
    const these = tests.filter(test => test.kind === kind)
    return { kind, passed: these.filter(test => test.passed).length, of: these.length }
  })
}

function failures (tests) {
  return tests.filter(test => test.kind !== 'check' && !test.passed).map(test => {
    const known = expected.failures[test.id]
    return [test.id, test.kind, known?.state ?? 'UNEXPECTED', known?.why ?? test.error]
  })
}

function summary (tests, shipped) {
  const ours = totals(tests)
  return [
    ['', ...ours.map(({ kind, of }) => `${kind} of ${of}`)],
    ['nightwatt, compatible profile', ...ours.map(({ passed }) => passed)],
    ['nightwatt as shipped', ...totals(shipped).map(({ passed }) => passed)],
    // These were found by the newest suite alone.
    ...(ours.map(({ of }) => of).join() === '150,98,93' ? PUBLISHED : [])
  ]
}

/** The documentation's section about this suite, between its two marks. */
function writeDocs (tests, shipped, missing) {
  const checks = tests.filter(test => test.kind === 'check')
    .map(test => [`\`${test.id}\``, test.passed ? 'yes' : 'no', expected.checks[test.id]?.why ?? ''])
  const failed = failures(tests).map(([id, ...rest]) => [`\`${id}\``, ...rest])
  const parts = [
    markdown(summary(tests, shipped)),
    markdown([['failed', 'kind', '', 'why'], ...failed]),
    `Required tests that are lost as shipped, since nothing was stored (${missing.length}): ` +
      missing.map(test => `\`${test.id}\``).join(', ') + '.'
  ]
  if (args.name === 'newest') parts.push('### What we decided', markdown([['check', 'nightwatt', 'why'], ...checks]))
  const [begin, end] = [`<!-- ${args.name}: made by tools/cache-tests --docs -->`, `<!-- end of ${args.name} -->`]
  const text = fs.readFileSync(DOCS, 'utf8')
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`${DOCS} lacks the marks \`${begin}\` and \`${end}\``)
  fs.writeFileSync(DOCS, `${text.slice(0, from)}${begin}\n\n${parts.join('\n\n')}\n\n${text.slice(to)}`)
}

/** What the suite's client prints under a profile. */
async function results (profile) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'cache-tests-'))
  try {
    return await run(dir, profile)
  } finally {
    for (const child of children.splice(0)) child.kill()
    fs.rmSync(dir, { recursive: true, force: true })
  }
}

/** Before the results the client may print what went wrong with single requests. */
const scored = text => score(JSON.parse(text.slice(text.search(/^\{/m))))

/** Required tests that pass with the compatible profile and not as shipped. */
function lost (tests, shipped) {
  const passed = new Set(tests.filter(test => test.passed).map(test => test.id))
  return shipped.filter(test => test.kind === 'required' && !test.passed && passed.has(test.id))
    // The suite says so of an answer that came from its server, or was not validated, where it expected a stored one.
    .map(test => ({ ...test, notStored: /not (?:come |served )?from (?:the )?cache|does not come from cache|hits origin|should have been conditional, but it was not/i.test(test.error) }))
}

async function main () {
  const text = await results('compatible')
  if (args.only) {
    console.log(text)
    return 0
  }
  const tests = await scored(text)
  const { unexpected, better } = judge(tests)
  const shipped = await scored(await results('shipped'))
  const missing = lost(tests, shipped)
  for (const test of missing.filter(test => !test.notStored)) {
    unexpected.push(`${test.id}: fails as shipped, and not because nothing was stored: ${test.error}`)
  }
  if (args.docs) writeDocs(tests, shipped, missing)
  if (args.json) {
    console.log(JSON.stringify({
      suite: args.name, profile: PROFILES.compatible, totals: totals(tests), unexpected, better, tests,
      shipped: { totals: totals(shipped), lost: missing }
    }, null, 2))
  } else {
    console.log(`http-cache-tests (${args.name})\n\n${table(summary(tests, shipped))}\n`)
    console.log(`The compatible profile:\n\n${PROFILES.compatible}\n`)
    console.log(table([['failed', 'kind', '', 'why'], ...failures(tests)]))
    console.log(`\nrequired tests that are lost as shipped, since nothing was stored: ${missing.length}`)
    for (const test of missing) console.log(`  ${test.id}`)
    for (const id of better) console.log(`\n${id} passes, and was not expected to: take it out of tools/cache-tests.json`)
    for (const what of unexpected) console.log(`\nunexpected: ${what}`)
    console.log(unexpected.length ? '\ncache tests: FAILED' : '\ncache tests: ok')
  }
  return unexpected.length ? 1 : 0
}

// The suite's modules may keep timers: what is done is done.
main().then(code => process.exit(code), error => {
  console.error(`error: ${error.message}`)
  process.exit(1)
})

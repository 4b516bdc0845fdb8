// For each file named on the standard input, one line with its CID, made by the npm package multiformats.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const peers = createRequire(process.argv[2] + '/')
const load = (name) => import(pathToFileURL(peers.resolve(name)))
const [{ CID }, raw, { sha256 }] = await Promise.all(
  ['multiformats/cid', 'multiformats/codecs/raw', 'multiformats/hashes/sha2'].map(load)
)

for (const file of JSON.parse(readFileSync(0, 'utf8'))) {
  const digest = await sha256.digest(readFileSync(file))
  console.log(CID.createV1(raw.code, digest).toString())
}

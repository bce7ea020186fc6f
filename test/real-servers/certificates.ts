import { execFile } from 'node:child_process'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
const DAYS = ['-days', '2']

export type Certificates = { ca: string; caFile: string; certificateFile: string; keyFile: string }

/** A certificate authority of its own in `folder`, and a certificate by it for localhost and 127.0.0.1. */
export async function makeCertificates(folder: string): Promise<Certificates> {
  const openssl = (...args: string[]): Promise<unknown> => run('openssl', args, { cwd: folder })
  await writeFile(join(folder, 'server.ext'), 'subjectAltName=DNS:localhost,IP:127.0.0.1\n')
  await openssl('req', '-x509', ...NEW_KEY, ...DAYS, '-subj', '/CN=Tocsin tests', ...keyAndOut('ca', 'crt'))
  await openssl('req', ...NEW_KEY, '-subj', '/CN=localhost', ...keyAndOut('server', 'csr'))
  const signedBy = ['-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial', '-extfile', 'server.ext']
  await openssl('x509', '-req', '-in', 'server.csr', ...signedBy, ...DAYS, '-out', 'server.crt')
  const caFile = join(folder, 'ca.crt')
  return {
    ca: await readFile(caFile, 'utf8'),
    caFile,
    certificateFile: join(folder, 'server.crt'),
    keyFile: join(folder, 'server.key'),
  }
}

/** Copies the files of `certificates` into `folder`, for a second server with the same authority. */
export async function copyCertificates(certificates: Certificates, folder: string): Promise<Certificates> {
  const copied = async (file: string): Promise<string> => {
    const copy = join(folder, basename(file))
    await copyFile(file, copy)
    return copy
  }
  return {
    ca: certificates.ca,
    caFile: await copied(certificates.caFile),
    certificateFile: await copied(certificates.certificateFile),
    keyFile: await copied(certificates.keyFile),
  }
}

function keyAndOut(name: string, kind: string): string[] {
  return ['-keyout', `${name}.key`, '-out', `${name}.${kind}`]
}

export { serve, type Served, type ServeOptions } from '../server/serve.ts'

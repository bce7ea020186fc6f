import type { StandardSchemaV1 } from '@standard-schema/spec'
import { checkOptions } from '../values/options.ts'
import { CONFIG_FIELDS, checkConfig, settingsOf, type TopicConfig } from '../values/config.ts'
import { describeValue, TocsinError } from '../errors.ts'
import type { Jsonified } from '../values/json.ts'
import { checkTopicName } from '../values/key.ts'

/**
 * A topic as producers and workers share it: its name, the settings that the code asks for, and perhaps a schema.
 * Plain data; making one does no I/O.
 */
export interface TopicDefinition<In, Out> {
  readonly name: string
  readonly config: TopicConfig
  readonly schema: StandardSchemaV1<In, Out> | null
}

export type WithSchema<S extends StandardSchemaV1> = TopicConfig & { readonly schema: S }
export type WithoutSchema = TopicConfig & { readonly schema?: undefined }

/** With a schema: its input is what `schedule` takes, its output what handlers get. */
export function defineTopic<S extends StandardSchemaV1>(
  name: string,
  config: WithSchema<S>,
): TopicDefinition<StandardSchemaV1.InferInput<S>, StandardSchemaV1.InferOutput<S>>
/** Without: `schedule` takes `T`, handlers get what JSON makes of it. */
export function defineTopic<T = unknown>(
  name: string,
  config?: WithoutSchema,
): TopicDefinition<T, Jsonified<T>>
export function defineTopic(
  name: string,
  config: TopicConfig & { schema?: StandardSchemaV1 | undefined } = {},
): TopicDefinition<unknown, unknown> {
  checkTopicName(name)
  const where = `topic '${name}'`
  checkOptions(config, ['schema', ...CONFIG_FIELDS], where, 'bad-config', '')
  const { schema, ...settings } = config
  const checked = checkConfig(settings, where)
  // Rules across fields (retry.min ≤ retry.max) live where the numbers are made.
  settingsOf(checked, where)
  return Object.freeze({
    name,
    config: checked,
    schema: schema === undefined ? null : checkSchema(schema, where),
  })
}

function checkSchema(schema: unknown, where: string): StandardSchemaV1 {
  const standard = (schema as StandardSchemaV1 | null)?.['~standard']
  if (typeof standard?.validate === 'function') return schema as StandardSchemaV1
  throw new TocsinError(
    'bad-config',
    `${where}.schema: expected a Standard Schema (zod, valibot, arktype, …), got ${describeValue(schema)}`,
    { field: 'schema' },
  )
}

import type { StandardSchemaV1 } from '@standard-schema/spec'
import { checkOptions } from '../values/options.ts'
import { CONFIG_FIELDS, checkConfig, settingsOf, type TopicConfig } from '../values/config.ts'
import { describeValue, TocsinError } from '../errors.ts'
import type { Jsonified } from '../values/json.ts'
import { checkTopicName } from '../values/key.ts'

/**
 * The definition of a topic, which producers and workers share: its name, its settings in the code, and its schema or
 * null. A definition is plain data: `defineTopic` does no I/O.
 */
export interface TopicDefinition<In, Out> {
  readonly name: string
  readonly config: TopicConfig
  readonly schema: StandardSchemaV1<In, Out> | null
}

export type WithSchema<S extends StandardSchemaV1> = TopicConfig & { readonly schema: S }
export type WithoutSchema = TopicConfig & { readonly schema?: undefined }

/** Defines a topic with a schema: `schedule` takes the input type of the schema, handlers get its output type. */
export function defineTopic<S extends StandardSchemaV1>(
  name: string,
  config: WithSchema<S>,
): TopicDefinition<StandardSchemaV1.InferInput<S>, StandardSchemaV1.InferOutput<S>>
/** Defines a topic without a schema: `schedule` takes `T`, handlers get `T` as converted by JSON. */
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
  // Called for its checks across fields, such as retry.min ≤ retry.max.
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

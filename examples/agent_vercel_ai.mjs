// A day out, planned with the Vercel AI SDK: two tools, and an answer that streams.
//
// node agent_vercel_ai.mjs
import { setTimeout as sleep } from 'node:timers/promises';
import { NodeSDK } from '@opentelemetry/sdk-node';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import * as ai from 'ai';

const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter() });
sdk.start();
if (ai.registerTelemetry) {  // from version 7 on
  const { OpenTelemetry } = await import('@ai-sdk/otel');
  ai.registerTelemetry(new OpenTelemetry());
}

const provider = createOpenAICompatible({
  name: 'any', apiKey: process.env.OPENAI_API_KEY, baseURL: process.env.OPENAI_BASE_URL, includeUsage: true,
});
const inputSchema = ai.jsonSchema({
  type: 'object',
  properties: { city: { type: 'string', enum: ['Graz', 'Lille', 'Turin'] } },
  required: ['city'],
});
const looked = (description, ms) => ai.tool({
  description, inputSchema, execute: async ({ city }) => { await sleep(ms); return { city }; },
});
const telemetry = { isEnabled: true, functionId: 'day-trip' };
const result = ai.streamText({
  model: provider(process.env.AGENT_MODEL),
  prompt: 'I have tomorrow off. Where should I go, and when does the train leave?',
  tools: { weather: looked('The weather in a city.', 80), trains: looked('The trains to a city.', 60) },
  stopWhen: ai.stepCountIs(4),
  telemetry,
  experimental_telemetry: telemetry,
});
for await (const text of result.textStream) process.stdout.write(text);
await sdk.shutdown();

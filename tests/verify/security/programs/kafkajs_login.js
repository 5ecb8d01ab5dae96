// Writes a record and reads it again with kafkajs: BOOTSTRAP PROTOCOL MECHANISM FOLDER TOPIC.
const fs = require('fs')
const { Kafka, logLevel } = require('kafkajs')
const [bootstrap, protocol, mechanism, folder, topic] = process.argv.slice(2)
const ssl = !protocol.endsWith('SSL') ? false : {
  ca: [fs.readFileSync(`${folder}/ca.pem`)],
  ...(protocol === 'SSL' && { key: fs.readFileSync(`${folder}/alice.key`), cert: fs.readFileSync(`${folder}/alice.crt`) }),
}
const sasl = protocol === 'SSL' ? undefined
  : { mechanism: mechanism.toLowerCase(), username: 'alice', password: 'alice-secret' }
const kafka = new Kafka({ brokers: [bootstrap], ssl, sasl, logLevel: logLevel.ERROR })
async function main() {
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, messages: [{ value: 'from kafkajs' }] })
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: topic })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const value = await new Promise((resolve) => consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }))
  await consumer.disconnect()
  console.log(value)
}
main().catch((error) => { console.error(error.message); process.exit(1) })

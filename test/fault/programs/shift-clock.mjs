/** To be preloaded: this process's wall clock is off by `shiftMs`. Its monotonic clock goes on as it is. */
const { shiftMs } = JSON.parse(process.argv[2])
const MachineDate = Date

globalThis.machineNow = MachineDate.now
globalThis.Date = class Date extends MachineDate {
  constructor(...given) {
    if (given.length === 0) super(MachineDate.now() + shiftMs)
    else super(...given)
  }

  static now() {
    return MachineDate.now() + shiftMs
  }
}

// The devices of hostmem: how many there are, which one a thread uses, and what is pending on their streams.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <string>

namespace hostmem {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

// The number of devices that this process sees: those of HOSTMEM_DEVICES that HOSTMEM_VISIBLE_DEVICES names, or
// all. Until it uses one they are counted again each time, so that a process may limit what it uses itself.
c10::DeviceIndex count() noexcept;

// Which of the machine's devices one of this process is.
c10::DeviceIndex physical(c10::DeviceIndex index);

// The device of this thread. Asking for it uses no device.
c10::DeviceIndex current() noexcept;

// Makes a device that of this thread and returns the one before. An error for a device that is not there.
c10::DeviceIndex exchange(c10::DeviceIndex index);

// The device, where it may be -1 for that of this thread. An error for one that is not there.
c10::DeviceIndex resolve(c10::DeviceIndex index);

// Says that this process uses a device. An error in the fork of a process that has used one.
void use(c10::DeviceIndex index);
bool used(c10::DeviceIndex index) noexcept;
bool in_bad_fork() noexcept;

// The stream of this thread on a device.
c10::Stream stream(c10::DeviceIndex index);
c10::Stream exchange_stream(c10::Stream stream);
c10::Stream new_stream(c10::DeviceIndex index);

// A kernel that fails, as its caller sees it: the error comes when somebody waits for its stream.
void fail_later(const std::string& message);
void wait_for(const c10::Stream& stream);
void wait_for_device(c10::DeviceIndex index);

// Bytes that tensors on a device take.
int64_t allocated(c10::DeviceIndex index);

// The generator that random operators use on a device where they are given none.
const at::Generator& default_generator(c10::DeviceIndex index);
at::Generator new_generator(c10::DeviceIndex index);
// The generator of the CPU that draws the numbers of one of these.
at::Generator drawing(const at::Generator& generator);

} // namespace hostmem

// What torch asks of a device type: devices, streams, events, memory and generators, all in the host's memory.
//
// Operators run at once on the thread that calls them, so a stream is a number, and an event is the time at which
// it was recorded. One thing is as late as on a real device: an error of `fail_later` is raised by whoever waits.
#include "devices.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <vector>

namespace hostmem {
namespace {

constexpr int kMost = 16;

struct Pending {
  c10::Stream stream;
  std::string message;
};

struct State {
  std::array<std::atomic<bool>, kMost> used{};
  std::array<std::atomic<int64_t>, kMost> allocated{};
  std::atomic<bool> bad_fork{false};
  std::atomic<int64_t> streams{0};
  std::mutex mutex;
  std::vector<Pending> pending;
  std::map<const void*, size_t> pinned;
};

State& state() {
  // Never freed: tensors may end after it would.
  static State* state = new State();
  return *state;
}

thread_local c10::DeviceIndex current_index = 0;
thread_local std::array<c10::StreamId, kMost> current_stream{};

c10::Device device_of(c10::DeviceIndex index) {
  return c10::Device(kType, index);
}

void in_child() {
  for (auto& used : state().used) {
    if (used.exchange(false)) {
      state().bad_fork = true;
    }
  }
}

// Raises the first pending error that `concerns` a stream, once.
template <class Concerns>
void raise_pending(Concerns concerns) {
  std::string message;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    auto& pending = state().pending;
    auto found = std::find_if(
        pending.begin(), pending.end(), [&](const Pending& each) { return concerns(each.stream); });
    if (found == pending.end()) {
      return;
    }
    message = found->message;
    pending.erase(found);
  }
  TORCH_CHECK(false, "hostmem: ", message);
}

} // namespace

namespace {

// The machine's devices that this process sees, as the environment says now.
std::vector<c10::DeviceIndex> visible() {
  const char* said = std::getenv("HOSTMEM_DEVICES");
  const int number = std::clamp(said ? std::atoi(said) : 4, 0, kMost);
  std::vector<c10::DeviceIndex> found;
  const char* named = std::getenv("HOSTMEM_VISIBLE_DEVICES");
  if (!named) {
    for (int index = 0; index < number; ++index) {
      found.push_back(index);
    }
    return found;
  }
  std::istringstream names(named);
  for (std::string name; std::getline(names, name, ',');) {
    char* end = nullptr;
    const long index = std::strtol(name.c_str(), &end, 10);
    if (end == name.c_str() || index < 0 || index >= number) {
      break;  // as with CUDA, what follows a wrong name is not seen
    }
    found.push_back(static_cast<c10::DeviceIndex>(index));
  }
  return found;
}

// Those of a process that uses a device stay as they were then.
const std::vector<c10::DeviceIndex>& fixed() {
  static const std::vector<c10::DeviceIndex> found = visible();
  return found;
}

bool any_used() noexcept {
  return std::any_of(state().used.begin(), state().used.end(), [](const auto& each) { return each.load(); });
}

} // namespace

c10::DeviceIndex count() noexcept {
  return static_cast<c10::DeviceIndex>(any_used() ? fixed().size() : visible().size());
}

c10::DeviceIndex physical(c10::DeviceIndex index) {
  index = resolve(index);
  return any_used() ? fixed()[index] : visible()[index];
}

c10::DeviceIndex current() noexcept {
  return current_index;
}

c10::DeviceIndex resolve(c10::DeviceIndex index) {
  if (index == -1) {
    return current_index;
  }
  TORCH_CHECK(
      0 <= index && index < count(), "there is no device hostmem:", int(index), ": there are ", int(count()));
  return index;
}

c10::DeviceIndex exchange(c10::DeviceIndex index) {
  const auto before = current_index;
  current_index = resolve(index);
  return before;
}

void use(c10::DeviceIndex index) {
  TORCH_CHECK(
      !state().bad_fork,
      "hostmem was used before this process was forked, and cannot be used in the fork: start a new process");
  fixed();
  state().used[index] = true;
}

bool used(c10::DeviceIndex index) noexcept {
  return 0 <= index && index < kMost && state().used[index];
}

bool in_bad_fork() noexcept {
  return state().bad_fork;
}

c10::Stream stream(c10::DeviceIndex index) {
  index = resolve(index);
  return c10::Stream(c10::Stream::UNSAFE, device_of(index), current_stream[index]);
}

c10::Stream exchange_stream(c10::Stream given) {
  const auto before = stream(given.device_index());
  current_stream[given.device_index()] = given.id();
  return before;
}

c10::Stream new_stream(c10::DeviceIndex index) {
  index = resolve(index);
  use(index);
  return c10::Stream(c10::Stream::UNSAFE, device_of(index), ++state().streams);
}

void fail_later(const std::string& message) {
  use(current_index);
  std::lock_guard<std::mutex> lock(state().mutex);
  state().pending.push_back({stream(current_index), message});
}

void wait_for(const c10::Stream& stream) {
  raise_pending([&](const c10::Stream& other) { return other == stream; });
}

void wait_for_device(c10::DeviceIndex index) {
  index = resolve(index);
  raise_pending([&](const c10::Stream& other) { return other.device_index() == index; });
}

int64_t allocated(c10::DeviceIndex index) {
  return state().allocated[resolve(index)];
}

namespace {

// A generator of the CPU under the name of a device.
struct Generator : public c10::GeneratorImpl {
  explicit Generator(c10::DeviceIndex index, at::Generator drawing = at::make_generator<at::CPUGeneratorImpl>())
      : c10::GeneratorImpl(device_of(index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        drawing(std::move(drawing)) {}

  void set_current_seed(uint64_t seed) override {
    drawing.set_current_seed(seed);
  }
  void set_offset(uint64_t offset) override {
    drawing.set_offset(offset);
  }
  uint64_t get_offset() const override {
    return drawing.get_offset();
  }
  uint64_t current_seed() const override {
    return drawing.current_seed();
  }
  uint64_t seed() override {
    return drawing.seed();
  }
  void set_state(const c10::TensorImpl& new_state) override {
    drawing.unsafeGetGeneratorImpl()->set_state(new_state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return drawing.unsafeGetGeneratorImpl()->get_state();
  }

  mutable at::Generator drawing;

 private:
  Generator* clone_impl() const override {
    return new Generator(device().index(), drawing.clone());
  }
};

} // namespace

at::Generator new_generator(c10::DeviceIndex index) {
  return at::make_generator<Generator>(resolve(index));
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static const std::vector<at::Generator> generators = [] {
    std::vector<at::Generator> made;
    for (c10::DeviceIndex each = 0; each < count(); ++each) {
      made.push_back(new_generator(each));
    }
    return made;
  }();
  return generators.at(resolve(index));
}

at::Generator drawing(const at::Generator& generator) {
  auto* found = dynamic_cast<Generator*>(generator.unsafeGetGeneratorImpl());
  TORCH_CHECK(found, "a generator on ", generator.device(), " was given to an operator on hostmem");
  return found->drawing;
}

namespace {

struct Block {
  void* memory;
  int64_t size;
  c10::DeviceIndex index;
};

void free_block(void* context) {
  auto* block = static_cast<Block*>(context);
  state().allocated[block->index] -= block->size;
  c10::free_cpu(block->memory);
  delete block;
}

struct Allocator final : public c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    const auto index = current();
    resolve(index);
    use(index);
    void* memory = size ? c10::alloc_cpu(size) : nullptr;
    state().allocated[index] += static_cast<int64_t>(size);
    auto* block = new Block{memory, static_cast<int64_t>(size), index};
    return {memory, block, &free_block, device_of(index)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr;
  }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    default_copy_data(to, from, size);
  }
};

Allocator allocator;
REGISTER_ALLOCATOR(kType, &allocator);

// Pinned memory of the host is ordinary memory that is known to be pinned, from its first byte to its last.
struct PinnedAllocator final : public c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    void* memory = size ? c10::alloc_cpu(size) : nullptr;
    std::lock_guard<std::mutex> lock(state().mutex);
    if (memory) {
      state().pinned[memory] = size;
    }
    return {memory, memory, &free_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &free_pinned;
  }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    default_copy_data(to, from, size);
  }
  static void free_pinned(void* memory) {
    std::lock_guard<std::mutex> lock(state().mutex);
    state().pinned.erase(memory);
    c10::free_cpu(memory);
  }
};

bool is_pinned(const void* memory) {
  std::lock_guard<std::mutex> lock(state().mutex);
  auto after = state().pinned.upper_bound(memory);
  if (after == state().pinned.begin()) {
    return false;
  }
  const auto& [begin, size] = *std::prev(after);
  return memory < static_cast<const char*>(begin) + size;
}

struct Event {
  c10::Stream stream;
  std::chrono::steady_clock::time_point at;
};

struct Guard final : public c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return kType;
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    return device_of(exchange(device.index()));
  }
  c10::Device getDevice() const override {
    return device_of(current());
  }
  void setDevice(c10::Device device) const override {
    exchange(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (0 <= device.index() && device.index() < count()) {
      current_index = device.index();
    }
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return count();
  }

  c10::Stream getStream(c10::Device device) const override {
    return stream(device.index());
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device_of(resolve(device.index())));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return new_stream(device.index());
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return new_stream(device.index());
  }
  c10::Stream exchangeStream(c10::Stream given) const override {
    return exchange_stream(given);
  }
  bool queryStream(const c10::Stream&) const override {
    return true;
  }
  void synchronizeStream(const c10::Stream& given) const override {
    wait_for(given);
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    wait_for_device(index);
  }

  void record(void** event, const c10::Stream& given, const c10::DeviceIndex, const c10::EventFlag) const override {
    delete static_cast<Event*>(*event);
    *event = new Event{given, std::chrono::steady_clock::now()};
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override {
    return true;
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) {
      wait_for(static_cast<Event*>(event)->stream);
    }
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    const auto took = static_cast<Event*>(to)->at - static_cast<Event*>(from)->at;
    return std::chrono::duration<double, std::milli>(took).count();
  }
};

struct Hooks final : public at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return count() > 0;
  }
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    return used(index);
  }
  c10::DeviceIndex deviceCount() const override {
    return count();
  }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    exchange(index);
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return current();
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return exchange(index);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return exchange(index);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    static PinnedAllocator allocator;
    return &allocator;
  }
  bool isPinnedPtr(const void* memory) const override {
    return is_pinned(memory);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return new_generator(index);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const override {
    const c10::DeviceGuard guard(storage.device());
    auto memory = allocator.allocate(size);
    if (size && storage.nbytes()) {
      allocator.copy_data(memory.get(), storage.data(), std::min(size, storage.nbytes()));
    }
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(memory));
    storage.set_nbytes(size);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

const bool ready = [] {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  pthread_atfork(nullptr, nullptr, &in_child);
  return true;
}();

} // namespace

TORCH_LIBRARY(hostmem, library) {
  library.def("device_count() -> int", [] { return int64_t(count()); });
  library.def("physical_device(int index) -> int", [](int64_t index) { return int64_t(physical(index)); });
  library.def("is_initialized() -> bool", [] {
    return std::any_of(state().used.begin(), state().used.end(), [](const auto& each) { return each.load(); });
  });
  library.def("is_in_bad_fork() -> bool", [] { return in_bad_fork(); });
  library.def("fail_later(str message) -> ()", [](const std::string& message) { fail_later(message); });
  library.def("synchronize(int index) -> ()", [](int64_t index) { wait_for_device(index); });
  library.def("memory_allocated(int index) -> int", [](int64_t index) { return allocated(index); });
  library.def("default_generator(int index) -> Generator?", [](int64_t index) { return default_generator(index); });
}

} // namespace hostmem

// The operators of hostmem: those that make, view, resize and copy tensors; all others run on the CPU.
#include "devices.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/NativeFunctions.h>
#include <ATen/autocast_mode.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/TensorFactories.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace hostmem {
namespace {

using c10::Device;
using c10::IntArrayRef;
using c10::ScalarType;

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// The same memory as a tensor of the CPU; a tensor of the CPU is itself.
at::Tensor on_host(const at::Tensor& tensor) {
  if (!tensor.is_privateuseone()) {
    return tensor;
  }
  auto same = at::from_blob(
      tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
  same._set_conj(tensor.is_conj());
  same._set_neg(tensor.is_neg());
  return same;
}

// New memory, or NaN where whoever reads what nobody has written is to notice.
at::Tensor unwritten(at::Tensor made) {
  const auto& context = at::globalContext();
  if (context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory()) {
    auto place = on_host(made);
    at::native::fill_empty_deterministic_(place);
  }
  return made;
}

at::Tensor empty(
    IntArrayRef size,
    std::optional<ScalarType> dtype,
    std::optional<c10::Layout>,
    std::optional<Device> device,
    std::optional<bool>,
    std::optional<c10::MemoryFormat> format) {
  const c10::DeviceGuard guard(c10::device_or_default(device));
  return unwritten(at::detail::empty_generic(
      size, c10::GetAllocator(kType), kKeys, c10::dtype_or_default(dtype), format));
}

at::Tensor empty_strided(
    IntArrayRef size,
    IntArrayRef stride,
    std::optional<ScalarType> dtype,
    std::optional<c10::Layout>,
    std::optional<Device> device,
    std::optional<bool>) {
  const c10::DeviceGuard guard(c10::device_or_default(device));
  return unwritten(at::detail::empty_strided_generic(
      size, stride, c10::GetAllocator(kType), kKeys, c10::dtype_or_default(dtype)));
}

// Memory is taken on the current device, which is the tensor's here.
const at::Tensor& resize(const at::Tensor& tensor, IntArrayRef size, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(tensor.device());
  return at::native::resize_(tensor, size, format);
}

at::Tensor& set_storage(
    at::Tensor& tensor, at::Storage storage, int64_t offset, IntArrayRef size, IntArrayRef stride) {
  const c10::DeviceGuard guard(storage.device());
  return at::native::set_storage_cpu_(tensor, std::move(storage), offset, size, stride);
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (from.is_privateuseone() && to.is_cpu() && !non_blocking) {
    wait_for(stream(from.device().index()));
  }
  auto place = on_host(to);
  place.copy_(on_host(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar local_scalar(const at::Tensor& tensor) {
  wait_for(stream(tensor.device().index()));
  return at::_local_scalar_dense(on_host(tensor));
}

void record_stream(at::Tensor&, at::Stream) {}

// The running statistics change in place, which its schema does not tell.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm(
    const at::Tensor& input,
    const std::optional<at::Tensor>& weight,
    const std::optional<at::Tensor>& bias,
    const std::optional<at::Tensor>& running_mean,
    const std::optional<at::Tensor>& running_var,
    bool training,
    double momentum,
    double eps) {
  const auto optional = [](const std::optional<at::Tensor>& each) {
    return each.has_value() && each->defined() ? std::make_optional(on_host(*each)) : std::nullopt;
  };
  auto [output, mean, invstd] = at::native_batch_norm(
      on_host(input),
      optional(weight),
      optional(bias),
      optional(running_mean),
      optional(running_var),
      training,
      momentum,
      eps);
  return {output.to(input.device()), mean.to(input.device()), invstd.to(input.device())};
}

at::Tensor convolution(
    const at::Tensor& input,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& bias,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups) {
  const bool biased = bias.has_value() && bias->defined();
  const auto on_cpu = biased ? std::make_optional(on_host(*bias)) : std::nullopt;
  return at::convolution(
             on_host(input), on_host(weight), on_cpu, stride, padding, dilation, transposed, output_padding, groups)
      .to(input.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient,
    const at::Tensor& input,
    const at::Tensor& weight,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups,
    std::array<bool, 3> wanted) {
  const std::vector<int64_t> bias{gradient.size(1)};
  auto [of_input, of_weight, of_bias] = at::convolution_backward(
      on_host(gradient),
      on_host(input),
      on_host(weight),
      at::OptionalIntArrayRef(bias),
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      groups,
      wanted);
  const auto moved = [&](const at::Tensor& each) { return each.defined() ? each.to(input.device()) : each; };
  return {moved(of_input), moved(of_weight), moved(of_bias)};
}

// The index of an operator's first tensor on a device, from an argument on; -1 for none.
c10::DeviceIndex found_on(const torch::jit::Stack& stack, size_t first) {
  for (size_t at = first; at < stack.size(); ++at) {
    if (stack[at].isTensor() && stack[at].toTensor().defined() && stack[at].toTensor().is_privateuseone()) {
      return stack[at].toTensor().device().index();
    }
  }
  return -1;
}

// The device that an operator runs on: that of its first tensor there, else that of the thread.
c10::DeviceIndex device_of(const torch::jit::Stack& stack, size_t first) {
  const auto found = found_on(stack, first);
  return found == -1 ? current() : found;
}

// Moves numbers of the CPU that come before an operator's first tensor on a device there, as any accelerator takes
// them: the results are where the first tensor is.
void move_numbers(torch::jit::Stack& stack, size_t first) {
  for (size_t at = first; at < stack.size(); ++at) {
    if (!stack[at].isTensor() || !stack[at].toTensor().defined()) {
      continue;
    }
    const auto& tensor = stack[at].toTensor();
    if (tensor.is_privateuseone()) {
      return;
    }
    const auto found = found_on(stack, at);
    if (found != -1 && tensor.is_cpu() && tensor.dim() == 0) {
      stack[at] = tensor.to(Device(kType, found));
    }
  }
}

// Runs an operator on the CPU. What is random in it comes from the generator it is given, or else the device's.
void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack->size() - arguments.size();
  move_numbers(*stack, first);
  bool takes_generator = false;
  for (size_t at = 0; at < arguments.size(); ++at) {
    const auto& type = *arguments[at].type();
    if (type.str() == "Generator?" || type.str() == "Generator") {
      auto& value = (*stack)[first + at];
      value = drawing(value.isNone() ? default_generator(device_of(*stack, first)) : value.toGenerator());
      takes_generator = true;
    }
  }
  if (takes_generator || !op.hasTag(at::Tag::nondeterministic_seeded)) {
    at::native::cpu_fallback(op, stack);
    return;
  }
  // It draws from the default generator of the CPU, which stands in for the device's meanwhile.
  auto device = drawing(default_generator(device_of(*stack, first)));
  auto host = at::detail::getDefaultCPUGenerator();
  const auto kept = host.get_state();
  host.set_state(device.get_state());
  at::native::cpu_fallback(op, stack);
  device.set_state(host.get_state());
  host.set_state(kept);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("resize_", resize);
  m.impl(
      "set_.source_Storage", static_cast<at::Tensor& (*)(at::Tensor&, at::Storage)>(at::native::set_));
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("record_stream", record_stream);
  m.impl("native_batch_norm", batch_norm);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}

// A copy takes conjugates and negatives as they are. torch would have it copy them first, and so for ever.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

// Autocast: what multiplies matrices is in lower precision, a norm in float32, and all else as it is given.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  KERNEL_PRIVATEUSEONE(addmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(baddbmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(bmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(conv2d, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(layer_norm, fp32)
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(mm, lower_precision_fp)
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
}

} // namespace hostmem

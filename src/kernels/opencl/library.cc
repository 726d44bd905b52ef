#include "kernels/opencl/library.h"

#include <array>
#include <cstdlib>

#include "core/loaded_library.h"

namespace longformer::kernels::opencl {
namespace {

Library loaded_opencl() {
  const char* named = std::getenv("LONGFORMER_OPENCL_LIBRARY");
  const LoadedLibrary file({"the backend opencl", "libOpenCL",
                            "ocl-icd-libopencl1, and a driver such as pocl-opencl-icd"},
                           std::array{named != nullptr ? named : "libOpenCL.so.1"});
  Library found;
  file.find("clGetPlatformIDs", found.get_platforms);
  file.find("clGetDeviceIDs", found.get_devices);
  file.find("clGetDeviceInfo", found.get_device_info);
  file.find("clCreateContext", found.create_context);
  file.find("clCreateCommandQueue", found.create_queue);
  file.find("clCreateProgramWithSource", found.create_program);
  file.find("clCreateProgramWithBinary", found.create_from_binary);
  file.find("clBuildProgram", found.build_program);
  file.find("clGetProgramInfo", found.get_program_info);
  file.find("clGetProgramBuildInfo", found.get_build_info);
  file.find("clReleaseProgram", found.release_program);
  file.find("clCreateKernel", found.create_kernel);
  file.find("clGetKernelWorkGroupInfo", found.get_kernel_group);
  file.find("clSetKernelArg", found.set_argument);
  file.find("clCreateBuffer", found.create_buffer);
  file.find("clReleaseMemObject", found.release_memory);
  file.find("clEnqueueWriteBuffer", found.write_buffer);
  file.find("clEnqueueCopyBuffer", found.copy_buffer);
  file.find("clEnqueueReadBuffer", found.read_buffer);
  file.find("clEnqueueMapBuffer", found.map_buffer);
  file.find("clEnqueueUnmapMemObject", found.unmap);
  file.find("clEnqueueNDRangeKernel", found.run);
  file.find("clFinish", found.finish);
  return found;
}

}  // namespace

const Library& library() {
  static const Library loaded = loaded_opencl();
  return loaded;
}

}  // namespace longformer::kernels::opencl

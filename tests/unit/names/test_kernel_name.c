#include "names/demangle.h"

#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/utf8.h"
#include "failing_alloc.h"

static const struct {
	const char *name, *expected;
} cases[] = {
	{ "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
	  "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, "
	  "3ul>)",
	  "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>" },
	{ "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
	  "at::detail::Array<char*, 1> >(int, at::native::FillFunctor<float>, "
	  "at::detail::Array<char*, 1>)",
	  "vectorized_elementwise_kernel<4, FillFunctor<float>>" },
	{ "void "
	  "at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::"
	  "TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()() "
	  "const::{lambda(float)#1}, at::detail::Array<char*, 2>, 4, TrivialOffsetCalculator<1, "
	  "unsigned int>, TrivialOffsetCalculator<1, unsigned int>, "
	  "at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1> >(int, "
	  "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()()"
	  " const::{lambda()#7}::operator()() const::{lambda(float)#1}, at::detail::Array<char*, "
	  "2>, TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, "
	  "at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1>)",
	  "unrolled_elementwise_kernel<direct_copy_kernel_cuda::lambda(float), 4>" },
	{ "void at::native::elementwise_kernel<128, 2, "
	  "at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, "
	  "at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, "
	  "at::native::BinaryFunctor<float, float, float, "
	  "at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1}>(int, "
	  "at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, "
	  "at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, "
	  "at::native::BinaryFunctor<float, float, float, "
	  "at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1})",
	  "elementwise_kernel<128, 2, BinaryFunctor<MulFunctor<float>>>" },
	{ "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
	  "at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4> "
	  ">(at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned "
	  "int, float, 4, 4>)",
	  "reduce_kernel<512, 1, ReduceOp<float, MeanOps<float>>>" },
	{ "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
	  "at::native::func_wrapper_t<float, at::native::sum_functor<float, float, "
	  "float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, "
	  "float, 4, 4> >(at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
	  "at::native::sum_functor<float, float, "
	  "float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, "
	  "float, 4, 4>)",
	  "reduce_kernel<512, 1, ReduceOp<float, sum_functor<float>::lambda>>" },
	{ "void at::native::(anonymous "
	  "namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
	  "namespace)::TensorListMetadata<2>, at::native::(anonymous "
	  "namespace)::BinaryOpScalarFunctor<float, 2, 1, 1>, std::multiplies<float>, "
	  "float>(at::native::(anonymous namespace)::TensorListMetadata<2>, at::native::(anonymous "
	  "namespace)::BinaryOpScalarFunctor<float, 2, 1, 1>, std::multiplies<float>, float)",
	  "multi_tensor_apply_kernel<BinaryOpScalarFunctor, multiplies, float>" },
	{ "void at::native::(anonymous "
	  "namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
	  "namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous "
	  "namespace)::FusedAdamMathFunctor<float, 4, (at::native::(anonymous "
	  "namespace)::ADAM_MODE)0, false>, float const*, double, double, double, double, double, "
	  "bool, float const*, float const*>(at::native::(anonymous "
	  "namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous "
	  "namespace)::FusedAdamMathFunctor<float, 4, (at::native::(anonymous "
	  "namespace)::ADAM_MODE)0, false>, float const*, double, double, double, double, double, "
	  "bool, float const*, float const*)",
	  "multi_tensor_apply_kernel<FusedAdamMathFunctor, float*, double, ...>" },
	{ "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, "
	  "false>(float*, float const*, int, int, int, bool const*, int, bool)",
	  "softmax_warp_forward<float, float, float, 10, false, false>" },
	{ "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, "
	  "float, float const*, float const*, float const*, float*, float*, float*)",
	  "vectorized_layer_norm_kernel<float, float>" },
	{ "void at::native::index_elementwise_kernel<128, 4, "
	  "at::native::gpu_index_kernel<at::native::index_kernel_impl<at::native::OpaqueType<4> "
	  ">(at::TensorIteratorBase&, c10::ArrayRef<long>, c10::ArrayRef<long>)::{lambda(char*, "
	  "char const*, long)#1}>(at::TensorIteratorBase&, c10::ArrayRef<long>, "
	  "c10::ArrayRef<long>, at::native::index_kernel_impl<at::native::OpaqueType<4> "
	  ">(at::TensorIteratorBase&, c10::ArrayRef<long>, c10::ArrayRef<long>)::{lambda(char*, "
	  "char const*, long)#1} const&, bool)::{lambda(int)#1}>(long, "
	  "at::native::gpu_index_kernel<int>)",
	  "index_elementwise_kernel<128, 4, index_kernel_impl<OpaqueType>::lambda>" },
	{ "void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned "
	  "int, 2, 2, -2, true>(at::cuda::detail::TensorInfo<float, unsigned int>, "
	  "at::cuda::detail::TensorInfo<float const, unsigned int>)",
	  "indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2, true>" },
	{ "void at::native::(anonymous "
	  "namespace)::CatArrayBatchedCopy_aligned16_contig<at::native::(anonymous "
	  "namespace)::OpaqueType<4u>, unsigned int, 2, 64, 64>(at::native::(anonymous "
	  "namespace)::OpaqueType<4u>*, at::native::(anonymous "
	  "namespace)::CatArrInputTensorMetadata<at::native::(anonymous "
	  "namespace)::OpaqueType<4u>, unsigned int, 64, 64>)",
	  "CatArrayBatchedCopy_aligned16_contig<OpaqueType<4>, uint, 2, 64, 64>" },
	{ "void at::native::(anonymous "
	  "namespace)::distribution_elementwise_grid_stride_kernel<float, 4, "
	  "at::native::templates::cuda::normal_and_transform<float, float, at::CUDAGeneratorImpl*, "
	  "at::native::templates::cuda::normal_kernel<at::CUDAGeneratorImpl*>(at::TensorBase "
	  "const&, double, double, at::CUDAGeneratorImpl*)::{lambda()#1}::operator()() "
	  "const::{lambda()#2}::operator()() const::{lambda(float)#1}>(at::TensorIteratorBase&, "
	  "at::CUDAGeneratorImpl*, "
	  "at::native::templates::cuda::normal_kernel<at::CUDAGeneratorImpl*>(at::TensorBase "
	  "const&, double, double, at::CUDAGeneratorImpl*)::{lambda()#1}::operator()() "
	  "const::{lambda()#2}::operator()() "
	  "const::{lambda(float)#1})::{lambda(curandStatePhilox4_32_10*)#2}>(long, "
	  "at::PhiloxCudaState)",
	  "distribution_elementwise_grid_stride_kernel<float, normal_and_transform>" },
	{ "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_warpgroupsize1x1x1_execute_"
	  "segment_k_off_kernel__5x_cublas",
	  "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_64x64x32" },
	{ "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize160x128x32_stage4_warpsize2x2x1_"
	  "tensor16x8x16_execute_split_k_kernel__5x_cublas",
	  "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_160x128x32_s4_splitk" },
	{ "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_warpgroupsize2x1x1_bias_"
	  "bf16_execute_segment_k_on_kernel__5x_cublas",
	  "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_128x2..._wg2x1x1_bias_bf16_segk" },
	{ "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT",
	  "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT" },
	{ "ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn" },
	{ "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn",
	  "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn" },
	{ "void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, float, true, true, "
	  "false>(cublasLt::cublasSplitKParams<float>, float const*, float const*, float*, float "
	  "const*, float const*, void const*, long, float*, int*)",
	  "splitKreduce_kernel<32, 16, int, float, float, float, float, 1, 1, 0>" },
	{ "void "
	  "cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_f16_128x128_64x3_nn_align8>(cutlass_80_"
	  "tensorop_s16816gemm_f16_128x128_64x3_nn_align8::Params)",
	  "cutlass_80_tensorop_s16816gemm_f16_128x128_64x3_nn_align8" },
	{ "void "
	  "cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass_80_simt_sgemm_"
	  "128x32_8x5_nn_align1::Params)",
	  "cutlass_80_simt_sgemm_128x32_8x5_nn_align1" },
	{ "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, "
	  "int, int>, "
	  "cutlass::gemm::collective::CollectiveMma<cutlass::gemm::"
	  "MainloopSm90TmaGmmaWarpSpecialized<7, cute::tuple<cute::C<2>, cute::C<1>, cute::C<1> >, "
	  "cutlass::gemm::KernelTmaWarpSpecializedPingpong>, cute::tuple<cute::C<64>, "
	  "cute::C<128>, cute::C<64> >, cutlass::half_t, cute::tuple<long, cute::C<1>, long>, "
	  "cutlass::half_t, cute::tuple<long, cute::C<1>, long>, "
	  "cute::TiledMMA<cute::MMA_Atom<cute::SM90_64x128x16_F32F16F16_SS<(cute::GMMA::Major)0, "
	  "(cute::GMMA::Major)0> >, cute::Layout<cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> > "
	  "> >, cute::SM90_TMA_LOAD>, "
	  "cutlass::epilogue::collective::CollectiveEpilogue<cutlass::epilogue::"
	  "Sm90TmaWarpSpecialized<2, 2, 8, true, false> >, cutlass::gemm::PersistentScheduler, "
	  "void> >(cutlass::gemm::kernel::GemmUniversal<int>::Params)",
	  "GemmUniversal<TmaWarpSpecializedPingpong, 64x128x64, half_t, half_t>" },
	{ "void "
	  "cutlass::Kernel<cutlass::gemm::kernel::Gemm<cutlass::gemm::threadblock::MmaPipelined<"
	  "cutlass::gemm::GemmShape<128, 128, 8>, "
	  "cutlass::transform::threadblock::PredicatedTileIterator<cutlass::MatrixShape<128, 8>, "
	  "float, cutlass::layout::ColumnMajor, 1, "
	  "cutlass::transform::PitchLinearStripminedThreadMap<cutlass::PitchLinearShape<128, 8>, "
	  "256, 1>, 1, false, cutlass::layout::NoPermute>, "
	  "cutlass::transform::threadblock::RegularTileIterator<cutlass::MatrixShape<128, 8>, "
	  "float, cutlass::layout::ColumnMajor, 1>, float, cutlass::layout::ColumnMajor, bool>, "
	  "cutlass::epilogue::threadblock::Epilogue<cutlass::gemm::GemmShape<128, 128, 8> >, "
	  "cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<1>, false> "
	  ">(cutlass::gemm::kernel::Gemm<int>::Params)",
	  "Gemm<MmaPipelined<128x128x8, float, ColumnMajor>, false>" },
	{ "void "
	  "cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::"
	  "CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, "
	  "cute::tuple<cute::C<128>, cute::C<176>, cute::C<128> >, 128, cutlass::bfloat16_t, "
	  "float, cutlass::arch::Sm90, true, false, false, false, false, false, false, true, true, "
	  "false, true, false, false>, flash::CollectiveEpilogueFwd<cute::tuple<cute::C<128>, "
	  "cute::C<128>, cute::C<176> >, cutlass::bfloat16_t>, "
	  "flash::DynamicPersistentTileScheduler<256, 128, false, false, true> > > "
	  ">(flash::FlashAttnFwdSm90<int>::Params)",
	  "FlashAttnFwdSm90<2, 1x1x1, 128x176x128, 128, bfloat16_t, float, ...>" },
	{ "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
	  "cutlass::half_t, Flash_kernel_traits<128, 128, 64, 4, cutlass::half_t> >, false, true, "
	  "false, false, true, true, false>(Flash_fwd_params)",
	  "flash_fwd_kernel<128, 128, 64, 4, 0, 0, half_t, 0, 1, 0, 0, 1, 1, 0>" },
	{ "void "
	  "pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, "
	  "128, 128, 8, 4, 4, 4, false, false, cutlass::bfloat16_t, Flash_kernel_traits<64, 128, "
	  "128, 8, cutlass::bfloat16_t> >, false, true, false, false, true, "
	  "true>(pytorch_flash::Flash_bwd_params)",
	  "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<64, 128, 128, 8, 4, 4, ...>" },
	{ "fmha_cutlassF_f16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<"
	  "cutlass::half_t, cutlass::arch::Sm80, true, 64, 128, 128, true, true>::Params)",
	  "fmha_cutlassF_f16_aligned_64x128_rf_sm80" },
	{ "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(cudnnTensorStruct, "
	  "float const*)",
	  "bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>" },
	{ "void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, false, true, "
	  "(cudnnKernelDataType_t)0>(cudnn::engines_precompiled::nchw2nhwc_params_t<float>, __half "
	  "const*, __half*)",
	  "nchwToNhwcKernel<__half, __half, float, false, true, 0>" },
	{ "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_"
	  "tilesize128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_kernel_cudnn",
	  "sm80_xmma_fprop_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_128x128x16_s4" },
	{ "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_"
	  "kernel0_0",
	  "cudnn_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0" },
	{ "triton_poi_fused_add_0", "triton_poi_fused_add_0" },
	{ "triton_red_fused__to_copy_add_div_mean_mul_native_layer_norm_native_layer_norm_backward_"
	  "pow_sum_12",
	  "triton_red_fused__to_copy_add_div_mean_mul_nat...orm_backward_pow_sum_12" },
	{ "_attn_fwd_0d1d2d3c4c5de6de7c8d9d10d11", "_attn_fwd" },
	{ "matmul_kernel_0d1d2d3de4de5de6de7c8de9c10de11c", "matmul_kernel" },
	{ "void "
	  "cub::CUB_200700_900_NS::DeviceRadixSortOnesweepKernel<cub::CUB_200700_900_NS::"
	  "DeviceRadixSortPolicy<long, unsigned long, int>::Policy900, false, long, unsigned long, "
	  "int, int>(int*, int*, int*, int const*, long*, long const*)",
	  "DeviceRadixSortOnesweepKernel<false, long, unsigned long, int, int>" },
	{ "void "
	  "cub::CUB_200200_NS::DeviceReduceSingleTileKernel<cub::CUB_200200_NS::DeviceReducePolicy<"
	  "float, unsigned int, cub::CUB_200200_NS::Sum>::Policy600, float*, float*, int, "
	  "cub::CUB_200200_NS::Sum, float, float>(float*, float*, int)",
	  "DeviceReduceSingleTileKernel<float*, float*, int, Sum, float, float>" },
	{ "void "
	  "cub::CUB_200700_900_NS::detail::for_each::static_kernel<cub::CUB_200700_900_NS::detail::"
	  "for_each::policy_hub_t::policy_350_t, long, "
	  "thrust::THRUST_200700_900_NS::cuda_cub::__fill::functor<thrust::THRUST_200700_900_NS::"
	  "device_ptr<float>, float> >(long, int)",
	  "for_each::static_kernel<long, __fill::functor<float>>" },
	{ "void "
	  "thrust::THRUST_200700_900_NS::cuda_cub::core::_kernel_agent<thrust::THRUST_200700_900_"
	  "NS::cuda_cub::__parallel_for::ParallelForAgent<thrust::THRUST_200700_900_NS::cuda_cub::_"
	  "_transform::unary_transform_f<thrust::device_ptr<float>, thrust::device_ptr<float>, "
	  "thrust::cuda_cub::__transform::no_stencil_tag, saxpy_functor, "
	  "thrust::cuda_cub::__transform::always_true_predicate>, long>, "
	  "thrust::cuda_cub::__transform::unary_transform_f<int>, long>(int)",
	  "ParallelForAgent<unary_transform_f<saxpy_functor>, long>" },
	{ "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
	  "ncclDevKernel_AllReduce_Sum_f32_RING_LL" },
	{ "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
	  "ncclKernel_AllGather_RING_LL_Sum_int8_t" },
	{ "vectorAdd(float const*, float const*, float*, int)", "vectorAdd" },
	{ "vector_add", "vector_add" },
	{ "_Z9vectorAddPKfS0_Pfi", "vectorAdd" },
	{ "_Z14transposeNaivePfPKfii", "transposeNaive" },
	{ "void scale_all<__nv_dl_wrapper_t<__nv_dl_tag<void (*)(float*, int), &(scale(float*, "
	  "int)), 1u>, float*, float> >(__nv_dl_wrapper_t<__nv_dl_tag<void (*)(float*, int), "
	  "&(scale(float*, int)), 1u>, float*, float>, int)",
	  "scale_all<scale::lambda>" },
	{ "void cuda_kernel<__nv_hdl_wrapper_t<false, true, false, __nv_dl_tag<void (*)(float*, "
	  "int), &(ns::apply_it(float*, int)), 2u>, void (int), float*> >(int)",
	  "cuda_kernel<apply_it::lambda#2>" },
	{ "__nv_static_43__38_tmpxft_00001234_00000000_7_main_cpp1_ii_0a1b2c3d__Z6kernelPf",
	  "kernel" },
	{ "void "
	  "transformer_engine::normalization::ln_fwd_tuned_kernel<transformer_engine::"
	  "normalization::Kernel_traits<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, "
	  "unsigned int, 4096u, 1u, 1u, 4u, 16u> >(int)",
	  "ln_fwd_tuned_kernel<bfloat16, bfloat16, bfloat16, float, uint, ...>" },
	{ "void vllm::paged_attention_v1_kernel<unsigned short, unsigned short, 128, 16, 128, "
	  "(vllm::Fp8KVCacheDataType)0, false>(unsigned short*, unsigned short const*)",
	  "paged_attention_v1_kernel<ushort, ushort, 128, 16, 128, 0, 0>" },
	{ "void vllm::act_and_mul_kernel<c10::BFloat16, &(c10::BFloat16 "
	  "vllm::silu_kernel<c10::BFloat16>(c10::BFloat16 const&)), true>(c10::BFloat16*, "
	  "c10::BFloat16 const*, int)",
	  "act_and_mul_kernel<BFloat16, silu_kernel<BFloat16>, true>" },
	{ "input_add_reduce_fusion", "input_add_reduce_fusion" },
	{ "loop_multiply_fusion_3", "loop_multiply_fusion_3" },
	{ "void splitKreduce_kernel<32, 16, int, __half, __half, float>(int)",
	  "splitKreduce_kernel<32, 16, int, __half, __half, float>" },
	{ "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, "
	  "false, cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<float const>, "
	  "cublasGemvTensorStridedBatched<float const>, cublasGemvTensorStridedBatched<float>, "
	  "float> >(cublasGemvParamsEx<int, float>, float, float)",
	  "gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, ...>" },
	{ "void fft_kernel<float2, 1024u, (direction)1>(float2*)", "fft_kernel<float2, 1024, 1>" },
	{ "void regular_fft<256u, EPT<16u>, 16u, (padding_t)1, (twiddle_t)0, "
	  "(loadstore_modifier_t)2, (layout_t)0, unsigned int, float>(kernel_arguments_t<unsigned "
	  "int>)",
	  "regular_fft<256, EPT<16>, 16, 1, 0, 2, 0, unsigned int, float>" },
	{ "cupy_add__float32_float32_float32", "cupy_add__float32_float32_float32" },
	{ "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
	  "at::native::func_wrapper_t<float, at::native::sum_functor<float, float, "
	  "float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, "
	  "float, 4, 4> >(at::native::ReduceOp<float>)",
	  "reduce_kernel<512, 1, ReduceOp<float, sum_functor<float>::lambda>>" },
	{ "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous "
	  "namespace)::launch_clamp_scalar(at::TensorIteratorBase&, c10::Scalar, c10::Scalar, "
	  "at::native::detail::ClampLimits)::{lambda()#1}::operator()() "
	  "const::{lambda()#7}::operator()() const::{lambda(float)#1}, at::detail::Array<char*, 2> "
	  ">(int, int)",
	  "vectorized_elementwise_kernel<4, launch_clamp_scalar::lambda(float)>" },
	{ "void at::native::vectorized_elementwise_kernel<4, "
	  "at::native::gelu_kernel_cuda(at::TensorIteratorBase&, "
	  "at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#3}::operator()() "
	  "const::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >(int)",
	  "vectorized_elementwise_kernel<4, gelu_kernel_cuda::lambda(BFloat16)>" },
	{ "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, "
	  "at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>(float*, float const*, "
	  "int)",
	  "cunn_SoftMaxForward<4, float, float, float, LogSoftMaxForwardEpilogue>" },
	{ "void at::native::tensor_kernel_scan_innermost_dim<float, std::plus<float> >(float*, "
	  "float const*, unsigned int, unsigned int, unsigned int, float, std::plus<float>)",
	  "tensor_kernel_scan_innermost_dim<float, plus<float>>" },
	{ "void "
	  "at_cuda_detail::cub::DeviceScanByKeyKernel<at_cuda_detail::cub::DeviceScanByKeyPolicy<"
	  "thrust::reverse_iterator<int> >::Policy860, int>(int)",
	  "DeviceScanByKeyKernel<int>" },
	{ "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __half, __half, "
	  "__half, float, false, true, true, false, 7, false, cublasGemvParamsEx<int, int> "
	  ">(cublasGemvParamsEx<int, int>)",
	  "gemvx::kernel<int, int, __half, __half, __half, float, 0, 1, 1, 0, 7, 0>" },
	{ "void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float const>, "
	  "cublasGemvTensorStridedBatched<float> > >(cublasDotParams<int>)",
	  "dot_kernel<float, 128, 0>" },
	{ "void gemmk1_kernel<int, float, 256, 5, true, false, false, false, "
	  "cublasGemvTensorStridedBatched<float const> >(int)",
	  "gemmk1_kernel<int, float, cublasGemvTensorStridedBatched>" },
	{ "void cask_plugin_cudnn::kernel<false>(int)", "cask_plugin_cudnn::kernel<false>" },
	{ "my_crate::kernels::add", "add" },
	{ "_ZN8my_crate7kernels3add17h0123456789abcdefE", "add" },
	{ "void foo<(Enum)-1, 'a', (char)65, -5l, 3.5f>()", "foo<-1, a, 65, -5, 3.5f>" },
	{ "void kern<float [4], int (*)(float, int), Foo const&, void*, unsigned long long>(int)",
	  "kern<float, int(), Foo&, void*, unsigned long long>" },
	{ "kernel(int) [clone .cold]", "kernel" },
	{ "float* scale<int>(float*)", "scale<int>" },
	{ "void kern<float*, Foo>(int)", "kern<float*, Foo>" },
};

static void names_of_the_usual_libraries(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct strbuf s = STRBUF_INIT;

		kernel_name_short(cases[i].name, &s);
		assert_string_equal(strbuf_text(&s), cases[i].expected);
		assert_true(s.length <= KERNEL_NAME_MAX);
		strbuf_release(&s);
	}
}

/* Kernels that do different things and whose names differ late. */
static void these_stay_distinct(void **state)
{
	static const char *const pairs[][2] = {
		{ "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
		  "cutlass::half_t>, "
		  "false, true, false, false, true, true, false>(Flash_fwd_params)",
		  "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
		  "cutlass::half_t>, "
		  "false, true, false, false, true, true, true>(Flash_fwd_params)" },
		{ "void at::native::elementwise_kernel<128, 4, "
		  "at::native::gpu_kernel_impl<at::native::AUnaryFunctor"
		  "<float, float, float, at::native::binary_internal::MulFunctor<float> > "
		  ">(int)::{lambda(int)#1}>(int)",
		  "void at::native::elementwise_kernel<128, 4, "
		  "at::native::gpu_kernel_impl<at::native::BinaryFunctor"
		  "<float, float, float, at::native::binary_internal::MulFunctor<float> > "
		  ">(int)::{lambda(int)#1}>(int)" },
		{ "void at::native::elementwise_kernel<128, 4, "
		  "at::native::gpu_kernel_impl_nocast<at::native::"
		  "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() "
		  "const::{lambda()#7}::"
		  "operator()() const::{lambda(float)#1}>(int)::{lambda(int)#1}>(int)",
		  "void at::native::elementwise_kernel<128, 4, "
		  "at::native::gpu_kernel_impl_nocast<at::native::"
		  "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() "
		  "const::{lambda()#6}::"
		  "operator()() const::{lambda(double)#1}>(int)::{lambda(int)#1}>(int)" },
		{ "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_warpgroupsize1x1x1_"
		  "execute_segment_k_off_"
		  "kernel__5x_cublas",
		  "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_warpgroupsize1x1x1_"
		  "execute_segment_k_on_"
		  "kernel__5x_cublas" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		struct strbuf a = STRBUF_INIT, b = STRBUF_INIT;

		kernel_name_short(pairs[i][0], &a);
		kernel_name_short(pairs[i][1], &b);
		assert_string_not_equal(a.data, b.data);
		strbuf_release(&a);
		strbuf_release(&b);
	}
}

static void appends(void **state)
{
	struct strbuf s = STRBUF_INIT;

	(void)state;
	kernel_name_short("", &s);
	assert_int_equal(s.length, 0);
	strbuf_adds(&s, "1: ");
	kernel_name_short("void a::b<1>(int)", &s);
	assert_string_equal(s.data, "1: b<1>");
	strbuf_release(&s);
}

/* What is promised for any name at all. */
static void check_any(const char *name)
{
	struct strbuf s = STRBUF_INIT;
	size_t bad;

	strbuf_adds(&s, "x");
	kernel_name_short(name, &s);
	assert_false(s.failed);
	assert_int_equal(s.data[s.length], 0);
	assert_in_range(s.length, name[0] ? 2 : 1, 1 + KERNEL_NAME_MAX);
	for (size_t i = 0; i < s.length;) {
		size_t n = utf8_length(s.data + i, s.length - i, &bad);

		assert_true(n > 0 && (unsigned char)s.data[i] >= 0x20 && s.data[i] != 0x7f);
		i += n;
	}
	strbuf_release(&s);
}

static void cut_anywhere(void **state)
{
	char name[4096];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t length = strlen(cases[i].name);

		assert_true(length < sizeof(name));
		for (size_t n = 0; n < length; n++) {
			memcpy(name, cases[i].name, n);
			name[n] = '\0';
			check_any(name);
			check_any(cases[i].name + n);
		}
	}
}

static void any_byte_changed(void **state)
{
	static const char bytes[] = "<>(){}[]:,&*- ~0_S\"\\\n\x1b\xc2\xff";
	char name[4096];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t length = strlen(cases[i].name);

		memcpy(name, cases[i].name, length + 1);
		for (size_t n = 0; n < length; n++) {
			name[n] = bytes[(n + i) % (sizeof(bytes) - 1)];
			check_any(name);
			name[n] = cases[i].name[n];
		}
	}
}

static void huge_and_hostile_names(void **state)
{
	static const char *const repeated[] = {
		"a",
		"<",
		">",
		"(",
		")",
		"(&",
		"&(",
		"a<",
		"a<b,",
		"a::",
		"{lambda(",
		"{lambda(a)#1}::",
		"operator",
		"operator<",
		"operator()",
		" ",
		"-",
		"1",
		"unsigned ",
		"(anonymous namespace)::",
		"[",
		"a<(b)1,",
		"tuple<",
		"\xff",
		"\xe2\x82\xac",
		"_0d",
		"const ",
		"_Z",
		"::operator()",
		"_xmma_",
		"_stage",
	};
	static char name[70000];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(repeated); i++) {
		size_t n = strlen(repeated[i]), end = 0;

		while (end + n < 65536) {
			memcpy(name + end, repeated[i], n);
			end += n;
		}
		name[end] = '\0';
		check_any(name);
		memcpy(name + end, "a<b>", 5);
		check_any(name);
		memcpy(name, "_ZN1a1bI", 8);
		check_any(name);
	}
}

static void characters_are_not_torn(void **state)
{
	struct strbuf s = STRBUF_INIT;

	(void)state;
	for (unsigned lead = 0; lead < 4; lead++) {
		char name[256] = "abc";

		for (size_t end = lead; end < 240; end += 3)
			memcpy(name + end, "\xe2\x82\xac", 4);
		check_any(name);
		strbuf_clear(&s);
		kernel_name_short(name, &s);
		assert_null(strchr(s.data, '?'));
		assert_non_null(strstr(s.data, "..."));
	}
	strbuf_clear(&s);
	kernel_name_short("a\x1b[31mb\x7f\xc2\x9b\xff\xc3\xa9", &s);
	assert_string_equal(s.data, "a?[31mb???\xc3\xa9");
	strbuf_release(&s);
}

static void mangled_names_that_are_too_long(void **state)
{
	static char name[20000] = "_ZN7cutlass13device_kernelIN";
	struct strbuf s = STRBUF_INIT;

	(void)state;
	memset(name + 28, 'x', sizeof(name) - 29);
	kernel_name_short(name, &s);
	assert_string_equal(s.data, "device_kernel<...>");
	strbuf_release(&s);
}

static void failed_allocations(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i += 7) {
		FOR_EACH_FAILURE(n)
		{
			struct strbuf s = STRBUF_INIT;

			kernel_name_short(cases[i].name, &s);
			assert_true(s.failed || s.length > 0);
			assert_true(s.failed || s.length <= KERNEL_NAME_MAX);
			strbuf_release(&s);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_the_usual_libraries),
		cmocka_unit_test(these_stay_distinct),
		cmocka_unit_test(appends),
		cmocka_unit_test(cut_anywhere),
		cmocka_unit_test(any_byte_changed),
		cmocka_unit_test(huge_and_hostile_names),
		cmocka_unit_test(characters_are_not_torn),
		cmocka_unit_test(mangled_names_that_are_too_long),
		cmocka_unit_test(failed_allocations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

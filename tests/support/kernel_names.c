#include "support/kernel_names.h"

struct kernel_kind {
	const char *name;
	uint32_t grid, block, registers, static_shared_bytes, dynamic_shared_bytes;
	uint32_t cluster; /* 0: launched without clusters */
};

static const struct kernel_kind kinds[KERNEL_NAMES] = {
	{ "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_warpgroupsize1"
	  "x1x1_execute_segment_k_off_kernel__5x_cublas",
	  264, 384, 168, 0, 115712, 1 },
	{ "sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32_warpgroupsiz"
	  "e2x1x1_execute_segment_k_off_kernel__5x_cublas",
	  264, 384, 168, 0, 213120, 2 },
	{ "nvjet_tst_128x64_64x8_2x1_v_bz_TNT", 132, 384, 168, 0, 197632, 2 },
	{ "triton_poi_fused_add_native_layer_norm_3", 2048, 128, 40, 24, 0, 0 },
	{ "_ZN13pytorch_flash16flash_fwd_kernelINS_23Flash_fwd_kernel_traitsILi64"
	  "ELi128ELi128ELi4EN3c104HalfEEELb0ELb0ELb1EEEvT_",
	  512, 128, 255, 0, 81920, 0 },
	{ "_ZN13pytorch_flash25flash_bwd_dot_do_o_kernelINS_23Flash_bwd_kernel_tr"
	  "aitsILi64ELi128ELi128ELi8EN3c104HalfEEELb1EEEvT_",
	  512, 128, 80, 0, 0, 0 },
	{ "_ZN13pytorch_flash44flash_bwd_dq_dk_dv_loop_seqk_parallel_kernelINS_23"
	  "Flash_bwd_kernel_traitsILi64ELi128ELi128ELi8EN3c104HalfEEELb0EEEvT_",
	  512, 256, 255, 0, 147456, 0 },
	{ "_ZN7cutlass7Kernel2I51cutlass_80_tensorop_s1688gemm_128x64_32x3_tn_ali"
	  "gn4EEvNT_6ParamsE",
	  256, 128, 154, 0, 73728, 0 },
	{ "_ZN7cutlass7Kernel2I51cutlass_80_tensorop_s1688gemm_256x64_32x4_nn_ali"
	  "gn4EEvNT_6ParamsE",
	  256, 256, 230, 0, 81920, 0 },
	{ "_ZN7cutlass7Kernel2I58cutlass_80_wmma_tensorop_s161616gemm_16x16_128x2"
	  "_nt_align4EEvNT_6ParamsE",
	  256, 128, 154, 0, 16896, 0 },
	{ "_ZN2at6native13reduce_kernelILi128ELi4ENS0_8ReduceOpIfNS0_14func_wrapp"
	  "er_tIfNS0_11sum_functorIfffEEEEjfLi4EEEEEvT1_",
	  256, 512, 32, 16, 0, 0 },
	{ "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapp"
	  "er_tIfNS0_11sum_functorIfffEEEEjfLi4EEEEEvT1_",
	  256, 512, 32, 16, 0, 0 },
	{ "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOpsIfff"
	  "fEEjfLi4EEEEEvT1_",
	  256, 512, 32, 16, 0, 0 },
	{ "_ZN2at6native18elementwise_kernelILi128ELi2ENS0_22gpu_kernel_impl_lamb"
	  "daINS0_15CUDAFunctor_addIfEEEEEEviT1_",
	  1024, 128, 24, 0, 0, 0 },
	{ "_ZN2at6native18elementwise_kernelILi128ELi4ENS0_22gpu_kernel_impl_lamb"
	  "daINS0_13BinaryFunctorIfffNS0_15binary_internal10MulFunctorIfEEEEEEEEv"
	  "iT1_",
	  1024, 128, 24, 0, 0, 0 },
	{ "_ZN2at6native21indexSelectSmallIndexIfEEvPT_PKlii", 1024, 128, 24, 0, 0, 0 },
	{ "_ZN2at6native23cunn_SoftMaxForwardSmemIffLi4EEEvPT_PKS2_l", 2048, 256, 48, 0, 8192, 0 },
	{ "_ZN2at6native24cunn_SoftMaxBackwardSmemIffLi4EEEvPT_PKS2_S5_l", 2048, 256, 48, 0, 8192,
	  0 },
	{ "_ZN2at6native24fused_dropout_kernel_vecIfEEvPKT_PS2_Phjd", 1024, 128, 24, 0, 0, 0 },
	{ "_ZN2at6native25multi_tensor_apply_kernelILi1ENS0_18TensorListMetadataI"
	  "Li1EEENS0_21BinaryOpScalarFunctorIfLi1ELi1ELi0EEEJNS0_5MulOpIfEEfEEEvT"
	  "0_T1_DpT2_",
	  320, 512, 48, 0, 0, 0 },
	{ "_ZN2at6native27GammaBetaBackwardCUDAKernelIffEEvllPKT_S4_PKT0_S7_PS2_S"
	  "8_",
	  2048, 128, 40, 24, 0, 0 },
	{ "_ZN2at6native27unrolled_elementwise_kernelINS0_11FillFunctorIfEESt5arr"
	  "ayIPcLm2EELi4E23TrivialOffsetCalculatorILi1EjES8_NS0_6memory12LoadWith"
	  "CastILi1EEENS9_13StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_",
	  4096, 128, 26, 0, 0, 0 },
	{ "_ZN2at6native27unrolled_elementwise_kernelINS0_15CUDAFunctor_addIfEESt"
	  "5arrayIPcLm3EELi4E23TrivialOffsetCalculatorILi2EjES7_ILi1EjENS0_6memor"
	  "y15LoadWithoutCastENSA_16StoreWithoutCastEEEviT_T0_T2_T3_T4_T5_",
	  4096, 128, 26, 0, 0, 0 },
	{ "_ZN2at6native28vectorized_layer_norm_kernelIffEEviT0_PKT_S5_S5_PS2_S6_"
	  "PS3_",
	  2048, 128, 40, 24, 0, 0 },
	{ "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE"
	  "St5arrayIPcLm1EEEEviT0_T1_",
	  1024, 128, 24, 0, 0, 0 },
	{ "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11GeluFunctorIfEE"
	  "St5arrayIPcLm2EEEEviT0_T1_",
	  1024, 128, 24, 0, 0, 0 },
	{ "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11LerpFunctorIfEE"
	  "St5arrayIPcLm3EEEEviT0_T1_",
	  1024, 128, 24, 0, 0, 0 },
	{ "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11SqrtFunctorIfEE"
	  "St5arrayIPcLm2EEEEviT0_T1_",
	  1024, 128, 24, 0, 0, 0 },
	{ "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13AUnaryFunctorIf"
	  "ffNS0_15binary_internal10MulFunctorIfEEEESt5arrayIPcLm2EEEEviT0_T1_",
	  1024, 128, 24, 0, 0, 0 },
	{ "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13BUnaryFunctorIf"
	  "ffNS0_15binary_internal10DivFunctorIfEEEESt5arrayIPcLm2EEEEviT0_T1_",
	  1024, 128, 24, 0, 0, 0 },
	{ "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13BinaryFunctorIf"
	  "ffNS0_15binary_internal10MulFunctorIfEEEESt5arrayIPcLm3EEEEviT0_T1_",
	  1024, 128, 24, 0, 0, 0 },
	{ "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_14AddcdivFunctorI"
	  "fEESt5arrayIPcLm4EEEEviT0_T1_",
	  1024, 128, 24, 0, 0, 0 },
	{ "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_14AddcmulFunctorI"
	  "fEESt5arrayIPcLm4EEEEviT0_T1_",
	  1024, 128, 24, 0, 0, 0 },
	{ "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_add"
	  "IN3c108BFloat16EEESt5arrayIPcLm3EEEEviT0_T1_",
	  1024, 128, 24, 0, 0, 0 },
	{ "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_add"
	  "IfEESt5arrayIPcLm3EEEEviT0_T1_",
	  1024, 128, 24, 0, 0, 0 },
	{ "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_16PowScalarFuncto"
	  "rIfEESt5arrayIPcLm2EEEEviT0_T1_",
	  1024, 128, 24, 0, 0, 0 },
	{ "_ZN2at6native36CatArrayBatchedCopy_aligned16_contigIfjEEvPT_T0_", 1024, 128, 24, 0, 0,
	  0 },
	{ "_ZN2at6native39layer_norm_grad_input_kernel_vectorizedIffEEvPKT_S4_PKT"
	  "0_S7_S4_PS2_i",
	  2048, 128, 40, 24, 0, 0 },
	{ "_ZN3cub17CUB_200700_900_NS28DeviceReduceSingleTileKernelINS0_9Policy90"
	  "0EPfS3_NS0_3SumEEEvT0_T1_iT2_",
	  1, 256, 34, 1088, 0, 0 },
	{ "_ZN3cub17CUB_200700_900_NS29DeviceRadixSortOnesweepKernelINS0_9Policy9"
	  "00EjEEvPiS3_PKT0_PS4_",
	  400, 384, 72, 36864, 0, 0 },
};

uint32_t kernel_names_config(struct maker *m, unsigned i)
{
	const struct kernel_kind *k = &kinds[i];
	struct row_kernel_config row = {
		.name = maker_string(m, k->name),
		.grid_x = k->grid,
		.grid_y = 1,
		.grid_z = 1,
		.block_x = k->block,
		.block_y = 1,
		.block_z = 1,
		.cluster_x = k->cluster,
		.cluster_y = 1,
		.cluster_z = 1,
		.registers = k->registers,
		.static_shared_bytes = k->static_shared_bytes,
		.dynamic_shared_bytes = k->dynamic_shared_bytes,
		.launch_type = (uint8_t)(k->cluster ? launch_type_cluster : launch_type_regular),
	};

	if (k->cluster == 0) {
		ROW_MISSING(&row, kernel_config, cluster_x);
		ROW_MISSING(&row, kernel_config, cluster_y);
		ROW_MISSING(&row, kernel_config, cluster_z);
		ROW_MISSING(&row, kernel_config, cluster_scheduling);
	}
	ROW_MISSING(&row, kernel_config, executed_shared_bytes);
	ROW_MISSING(&row, kernel_config, carveout_percent);
	ROW_MISSING(&row, kernel_config, max_cluster_blocks);
	ROW_MISSING(&row, kernel_config, max_active_clusters);
	ROW_MISSING(&row, kernel_config, priority);
	return writer_kernel_config(m->writer, &row);
}
